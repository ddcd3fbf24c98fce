/** A probe that breaks down in the middle of its work. */
console.log(JSON.stringify({ step: 'open' }))
console.log(JSON.stringify({ step: 'write' }))
process.exitCode = 3
