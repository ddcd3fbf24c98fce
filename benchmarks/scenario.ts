/** What can be set for a scenario; what is left out has the scenario's own default. */
export interface ScenarioOptions {
  readonly messages?: number | undefined
  readonly sizeBytes?: number | undefined
  readonly concurrency?: number | undefined
  readonly megabytes?: number | undefined
  readonly seconds?: number | undefined
}

/** What a scenario measured. Names of figures end in their unit. */
export interface Figures {
  readonly parameters: Readonly<Record<string, number | string>>
  readonly figures: Readonly<Record<string, number>>
  /** What the run was to hold and did not, each as a sentence. */
  readonly failures?: readonly string[]
}

export interface Report extends Figures {
  readonly scenario: string
  /** RFC 3339. */
  readonly at: string
  readonly machine: {
    readonly cores: number
    readonly model: string
    readonly memoryBytes: number
    readonly node: string
  }
}

export type Scenario = (options: ScenarioOptions) => Promise<Figures>
