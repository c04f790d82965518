-- reprioritise moves a waiting task to the queue of another priority. A task
-- in a plain queue or an inbox keeps its place and gets the new word, one that
-- was put off keeps its time.
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
if not blank(h.queue) and h.queue ~= old and h.queue ~= type_of(h) then return {'ok', ''} end
local found = lrem(queue_key(type_of(h)), 0, id)
if target ~= old then found = found + lrem(queue_key(old), 0, id) end
if found > 0 or not blank(h.queue) then
  redis.call('HSET', KEYS[1], 'queue', target)
  redis.call('SADD', KEYS[2], target)
end
if found > 0 then enqueue(id, target, now_ms(), 0, false) end
return {'ok', ''}
