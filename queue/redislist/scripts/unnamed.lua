-- unnamed looks at ids in a worker's owner set that its heartbeat did not name.
-- KEYS  owner set; the task of each id
-- found none
-- ARGV  prefix, worker, then the ids
-- Returns id, attempt, queue triples of those that the worker runs; the others leave the set.
local worker, out = ARGV[2], {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local h = fields(id, {'status', 'worker_id', 'attempt', 'queue'})
  if h and h.status == 'running' and h.worker_id == worker then
    for _, v in ipairs({id, h.attempt or '', h.queue or ''}) do table.insert(out, v) end
  else
    redis.call('SREM', KEYS[1], id)
  end
end
return out
