-- finish records successful attempts and, in the same step, claims again.
-- uses: sweep
-- KEYS  owner set, completed index, queues set; of each outcome: task, its result, processing list of its queue; with a
--       claim request: the keys of claim
-- found what claim finds; unique key of a task; for a task whose list is not the one its claim came from:
--       queue:{name}:processing of its candidates
-- ARGV  prefix, worker, default result TTL (s), claim request (JSON or ""),
--       then for each outcome: id, attempt, queue, result
-- Returns {settled, claim reply or an empty list}. When enough was done, settled answers the first outcomes only and
-- nothing is claimed.
local worker, default_ttl, now = ARGV[2], tonumber(ARGV[3]), now_ms()

local settled, all = settle(worker, 5, 4, {'result_ttl'}, function(i, id, h)
  -- HSET first: a script that begins with it is refused under maxmemory, and
  -- the outcome is delivered when there is room for its result.
  redis.call('HSET', task_key(id), 'status', 'completed', 'completed_at', seconds(now))
  redis.call('SETEX', task_key(id) .. ':result', ttl_of(h, default_ttl), ARGV[i + 3])
  redis.call('SREM', worker_key(worker, 'tasks'), id)
  leave_processing(id, h, ARGV[i + 2])
  redis.call('ZADD', INDEX.completed, int(now), id)
  release_unique(h.unique_key, id)
  announce(id, 'completed', worker)
  return 'ok'
end, function(h)
  return h.status == 'completed' and h.worker_id == worker
end)
if not all or ARGV[4] == '' then return {settled, {}} end
return {settled, sweep(cjson.decode(ARGV[4]), now)}
