// BullMQ as worker or producer for the queue benchmark:
//   node bullmq.mjs work PORT SLOTS SLEEP_MS
//   node bullmq.mjs fill PORT TASKS PAYLOAD
//   node bullmq.mjs submit PORT TASKS PAYLOAD BULK   prints tasks per second
import { Queue, Worker } from 'bullmq'

const [what, port, ...numbers] = process.argv.slice(2)
const [a, b, c] = numbers.map(Number)
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null }
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const job = { name: 'bench', data: { pad: '' } }

async function add(tasks, bytes, bulk) {
  const queue = new Queue('bench', { connection })
  await queue.waitUntilReady()
  job.data.pad = 'x'.repeat(Math.max(bytes - 10, 0))
  const began = process.hrtime.bigint()
  for (let left = tasks; left > 0; left -= bulk) {
    if (bulk === 1) await queue.add(job.name, job.data)
    else await queue.addBulk(Array.from({ length: Math.min(left, bulk) }, () => ({ ...job })))
  }
  const took = Number(process.hrtime.bigint() - began) / 1e9
  await queue.close()
  return tasks / took
}

if (what === 'work') {
  const worker = new Worker('bench', async () => {
    if (b > 0) await sleep(b)
    return { ok: true }
  }, { connection, concurrency: a })
  process.on('SIGTERM', async () => {
    await worker.close()
    process.exit(0)
  })
} else if (what === 'fill') {
  await add(a, b, 1000)
} else {
  console.log(await add(a, b, c))
}
