-- release hands claims back to the front of their queues, uncounted.
-- KEYS  owner set
-- ARGV  prefix, worker, then for each claim: id, attempt, queue
-- Returns a list of settled answers.
local worker = ARGV[2]
local own = worker_key(worker, 'tasks')
local now, settled = now_ms(), {}
for i = 3, #ARGV, 3 do
  local id, attempt, queue = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local h = fields(id, {'status', 'worker_id', 'attempt', 'unique_key', 'queue', 'type', 'priority', 'cancel_requested'})
  local answer
  if not h then
    redis.call('SREM', own, id)
    lrem(processing_key(queue), 1, id)
    answer = 'gone'
  elseif h.status == 'running' and h.worker_id == worker and h.attempt == attempt then
    redis.call('SREM', own, id)
    requeue(id, h, now, leave_processing(id, h, queue), worker)
    answer = 'requeued'
  else
    if not (h.status == 'running' and h.worker_id == worker) then redis.call('SREM', own, id) end
    answer = (h.status == 'queued' and h.attempt == attempt) and 'already' or 'stale'
  end
  table.insert(settled, answer)
end
return settled
