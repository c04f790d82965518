-- retry queues a failed or cancelled task again, with fresh counts.
-- KEYS  task, queues set, its failure, its progress, delayed set, completed, failed and cancelled index
-- found queue:{name} of the task, its unique key and the task that holds it
-- ARGV  prefix, id
-- Returns ok, missing, conflict (and the status), or unique (and the holder).
local id, now = ARGV[2], now_ms()
local h, why = fields(id, {'status', 'type', 'priority', 'queue', 'unique_key'})
if not h then return {'missing', why} end
if h.status ~= 'failed_permanent' and h.status ~= 'cancelled' and h.status ~= 'failed' then
  return {'conflict', h.status or 'queued'}
end
if not blank(h.unique_key) then
  local holder = unique_holder(h.unique_key)
  if holder and holder ~= id then return {'unique', holder} end
  redis.call('SET', unique_key(h.unique_key), id)
end
local queue = blank(h.queue) and type_queue(h) or h.queue
redis.call('HDEL', KEYS[1], 'crash_count', 'death_count', 'cancel_requested', 'exclude', 'error_code', 'failed_at',
  'completed_at', 'deadline', 'run_at')
redis.call('HSET', KEYS[1], 'status', 'queued', 'worker_id', '', 'retry_count', '0', 'requeued_at', seconds(now), 'queue', queue)
for _, index in pairs(INDEX) do redis.call('ZREM', index, id) end
redis.call('DEL', KEYS[3], KEYS[4])
redis.call('SADD', KEYS[2], queue)
enqueue(id, queue, now, 0, false)
return {'ok', queue}
