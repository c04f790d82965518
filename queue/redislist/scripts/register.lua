-- register makes a worker known and alive in one step, with a new generation.
-- KEYS  config, registered set, heartbeat, counts of a failover, epoch, failover log, queues set
-- found none
-- ARGV  prefix, worker, node id, last generation known to the worker, capabilities (JSON), max_concurrent,
--       queues (JSON), labels (JSON), version, heartbeat (JSON with "%GENERATION%" where the generation goes), TTL (ms)
-- Returns {'ok', generation} or {'in_use', node id of the holder}.
local worker, node = ARGV[2], ARGV[3]
local now = now_ms()
local old = redis.call('HMGET', KEYS[1], 'generation', 'node_id', 'registered_at')
if redis.call('EXISTS', KEYS[3]) == 1 and not blank(old[2]) and old[2] ~= node then return {'in_use', old[2]} end
local generation = math.max(whole(old[1]) + 1, tonumber(ARGV[4]) + 1, now)
local g = int(generation)
redis.call('HSET', KEYS[1], 'id', worker, 'capabilities', ARGV[5], 'max_concurrent', ARGV[6], 'registered_at', seconds(now),
  'status', 'active', 'generation', g, 'node_id', node, 'queues', ARGV[7], 'labels', ARGV[8], 'version', ARGV[9])
redis.call('SADD', KEYS[2], worker)
local beat = string.gsub(ARGV[10], '"%%GENERATION%%"', g)
redis.call('SET', KEYS[3], beat, 'PX', ARGV[11])
-- A failover that was under way counts what it did; the worker is back.
local trace = KEYS[4]
local done = redis.call('HMGET', trace, 'orphaned', 'migrated', 'failed')
if done[1] then
  local event = cjson.encode({event = 'worker_failover', worker_id = worker, orphaned_tasks = tonumber(done[1]),
    migrated_tasks = tonumber(done[2] or 0), failed_tasks = tonumber(done[3] or 0), timestamp = now / 1000,
    epoch = tonumber(redis.call('GET', KEYS[5]) or 0)})
  redis.call('LPUSH', KEYS[6], event)
  redis.call('LTRIM', KEYS[6], 0, 499)
  redis.call('DEL', trace)
end
add_all(KEYS[7], cjson.decode(ARGV[7]))
return {'ok', g}
