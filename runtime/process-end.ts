/**
 * Ends the process with this exit code, whatever its threads do. `process.exit` waits for them, and one that is within
 * native code cannot be ended: here the kernel ends them, by putting a program in the place of this one that does
 * nothing but end. What has to be tidied up was tidied up before.
 */
export function endNow(code: number): never {
  // Windows has no such call, and ends the threads by itself.
  if (process.platform !== 'win32' && process.execve !== undefined)
    process.execve(process.execPath, [process.execPath, '-e', `process.exit(${code})`], {})
  process.exit(code)
}
