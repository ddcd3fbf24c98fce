import t from 'tap'
import { outcomeOfFailure } from '../../../storage/exchange/retry.ts'
import { STORAGE_PROBLEMS, StorageError } from '../../../storage/storage-error.ts'

const policy = { retry_max_attempts: 3, retry_initial_seconds: 10, retry_max_seconds: 60 }

t.test(
  'a payload that is damaged fails its delivery at once, one that is missing may come back',
  async (t) => {
    const stateAfterOne = (problem: 'damaged' | 'missing') =>
      outcomeOfFailure(new StorageError('The payload cannot be read', { problem }), 1, policy, 0.5).state
    t.equal(stateAfterOne('damaged'), 'failed')
    t.equal(stateAfterOne('missing'), 'retrying')
  },
)

t.test(
  'a delivery outlasts a payload store that is away, and not one whose payload is damaged or missing',
  async (t) => {
    const states = STORAGE_PROBLEMS.map((problem) => {
      const error = new StorageError('The payload cannot be read', { problem })
      return [problem, outcomeOfFailure(error, 3, policy, 0.5).state]
    })
    t.same(Object.fromEntries(states), {
      full: 'retrying',
      failing: 'retrying',
      unreachable: 'retrying',
      refused: 'retrying',
      damaged: 'failed',
      missing: 'failed',
      source: 'failed',
      unusable: 'failed',
    })
  },
)
