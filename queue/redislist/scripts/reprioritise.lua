-- reprioritise moves a waiting task to the queue of another priority. A task
-- in a plain queue or put off for later keeps its place and gets the new word.
-- KEYS  task, queues set
-- ARGV  prefix, id, priority
-- Returns ok, missing, or conflict.
local id, priority = ARGV[2], ARGV[3]
local h, why = fields(id, {'status', 'type', 'priority', 'queue'})
if not h then return {'missing', why} end
if not blank(h.status) and h.status ~= 'queued' then return {'conflict', h.status} end
local old = type_queue(h)
h.priority = priority
local target = type_queue(h)
redis.call('HSET', KEYS[1], 'priority', priority)
if blank(h.queue) or h.queue == old then
  redis.call('HSET', KEYS[1], 'queue', target)
  redis.call('SADD', KEYS[2], target)
  if target ~= old and redis.call('LREM', queue_key(old), 0, id) > 0 then
    redis.call('LPUSH', queue_key(target), id)
    announce(id, 'queued')
  end
end
return {'ok', ''}
