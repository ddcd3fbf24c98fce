import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where OpenAS2 comes from: the Java server and all it needs, from Maven, once, into the cache of the checkout. */

const GROUP = 'net.sf.openas2'
const ARTIFACT = 'openas2-server'
/** The newest that Maven's central repository has. */
const OPENAS2_VERSION = '2.10.1'
const COPY_DEPENDENCIES = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies'

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/waybill', import.meta.url))
/** The folder of its jars; it exists when the installation is complete. */
export const OPENAS2_JARS = join(CACHE, `openas2-${OPENAS2_VERSION}`)

export function isOpenAs2Installed(): boolean {
  return existsSync(OPENAS2_JARS) && answers('java', '-version')
}

/**
 * Installs it unless it is there; then it needs no network.
 *
 * @throws Error when Java or Maven is missing
 */
export function installOpenAs2(): void {
  assertProgram('java', '-version', 'Java 11 or newer')
  if (existsSync(OPENAS2_JARS)) return
  assertProgram('mvn', '--version', 'Maven 3.6 or newer')
  mkdirSync(CACHE, { recursive: true })
  const draft = mkdtempSync(join(CACHE, 'openas2-draft-'))
  try {
    const [project, jars] = [join(draft, 'pom.xml'), join(draft, 'jars')]
    writeFileSync(project, POM)
    const options = [`-DoutputDirectory=${jars}`, '-DincludeScope=runtime']
    // Nothing on standard output but what goes wrong; a run that was cut off before is not believed.
    execFileSync('mvn', ['-q', '-B', '-U', '-f', project, COPY_DEPENDENCIES, ...options], {
      stdio: 'inherit',
    })
    // Only a whole one bears the name.
    renameSync(jars, OPENAS2_JARS)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>waybill.test</groupId>
  <artifactId>openas2-peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>${GROUP}</groupId>
      <artifactId>${ARTIFACT}</artifactId>
      <version>${OPENAS2_VERSION}</version>
    </dependency>
  </dependencies>
</project>
`

function assertProgram(program: string, question: string, needed: string): void {
  if (answers(program, question)) return
  throw new Error(
    `The tests with OpenAS2 need the command ${program}: install ${needed} and have it in the PATH.`,
  )
}

function answers(program: string, question: string): boolean {
  try {
    execFileSync(program, [question], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
