-- finish records successful attempts and, in the same step, claims again.
-- uses: sweep
-- KEYS  owner set, completed index
-- ARGV  prefix, worker, default result TTL (s), claim request (JSON or ""),
--       then for each outcome: id, attempt, queue, result
-- Returns {settled..., } as a list and the claim reply (or an empty list).
local worker, default_ttl = ARGV[2], tonumber(ARGV[3])
local own = worker_key(worker, 'tasks')
local now, settled = now_ms(), {}
for i = 5, #ARGV, 4 do
  local id, attempt, queue, result = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local h = fields(id, {'status', 'worker_id', 'attempt', 'unique_key', 'result_ttl', 'queue', 'type', 'priority'})
  local answer
  if not h then
    redis.call('SREM', own, id)
    lrem(processing_key(queue), 1, id)
    answer = 'gone'
  elseif h.status == 'running' and h.worker_id == worker and h.attempt == attempt then
    redis.call('HSET', task_key(id), 'status', 'completed', 'completed_at', seconds(now))
    redis.call('SETEX', task_key(id) .. ':result', ttl_of(h, default_ttl), result)
    redis.call('SREM', own, id)
    leave_processing(id, h, queue)
    redis.call('ZADD', P .. INDEX.completed, int(now), id)
    release_unique(h.unique_key, id)
    announce(id, 'completed', worker)
    answer = 'ok'
  elseif h.status == 'completed' and h.worker_id == worker and h.attempt == attempt then
    redis.call('SREM', own, id)
    answer = 'already'
  else
    if not (h.status == 'running' and h.worker_id == worker) then redis.call('SREM', own, id) end
    answer = 'stale'
  end
  table.insert(settled, answer)
end
if ARGV[4] == '' then return {settled, {}} end
return {settled, sweep(cjson.decode(ARGV[4]), now)}
