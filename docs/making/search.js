// Runs the search of the built site outside of a browser: the site's own worker and index.
// Usage: node search.js SITE QUERY...; prints a line for each query: the query and its first hits,
// separated by tabs.

const fs = require("node:fs")
const path = require("node:path")

const [site, ...queries] = process.argv.slice(2)
const [SETUP, QUERY, RESULT] = [0, 2, 3] // message types of the worker
const found = []

globalThis.self = globalThis
globalThis.addEventListener = (_, handle) => { globalThis.handle = handle }
globalThis.postMessage = ({ type, data }) => {
  if (type === RESULT) found.push(data.items.map(([first]) => first))
}

const workers = path.join(site, "assets/javascripts/workers")
const name = fs.readdirSync(workers).find(file => /^search\..*\.js$/.test(file))
require(path.resolve(workers, name))

const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"))

async function main() {
  await globalThis.handle({ data: { type: SETUP, data: { ...index, options: {} } } })
  for (const query of queries) {
    await globalThis.handle({ data: { type: QUERY, data: query } })
    console.log([query, ...found.at(-1).slice(0, 5).map(hit => hit.location)].join("\t"))
  }
}

main()
