-- progress stores and publishes progress events of running tasks.
-- KEYS  of each event: task, its progress
-- found none
-- ARGV  prefix, worker, TTL (s), then for each event: id, attempt, JSON
-- Returns how many were accepted.
local accepted = 0
for i = 4, #ARGV, 3 do
  local id = ARGV[i]
  local h = fields(id, {'status', 'worker_id', 'attempt'})
  if h and h.status == 'running' and h.worker_id == ARGV[2] and h.attempt == ARGV[i + 1] then
    redis.call('SETEX', task_key(id) .. ':progress', ARGV[3], ARGV[i + 2])
    publish('task:' .. id .. ':events', '{"kind":"progress","task":' .. cjson.encode(id) .. ',"data":' .. ARGV[i + 2] .. '}')
    accepted = accepted + 1
  end
end
return accepted
