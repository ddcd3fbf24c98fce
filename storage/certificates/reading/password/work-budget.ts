import { TooMuchError } from '../refusal.ts'

/**
 * The work that one upload may ask for. A file chooses its own number of iterations, so that a hostile one could
 * keep a processor busy for days; and a derivation runs in native code, where nothing can interrupt it. One unit is
 * about an iteration of PBKDF2 with SHA-256, 0.15 µs. Firefox writes three derivations of 600,000 iterations.
 */
export class WorkBudget {
  #units = 4_000_000

  spend(iterations: number, unitsEach = 1): void {
    const units = iterations * unitsEach
    if (iterations < 1 || units > this.#units) {
      throw new TooMuchError('it asks for too many iterations of key derivation')
    }
    this.#units -= units
  }
}
