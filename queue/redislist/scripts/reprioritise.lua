-- reprioritise moves a waiting task to the queue of another priority. A task
-- in a plain queue or an inbox keeps its place and gets the new word, one that
-- was put off keeps its time. Of a very long list the ends are searched.
-- KEYS  task, queues set, delayed set
-- found queue:{name} of the task's type with the old and the new priority and without one
-- ARGV  prefix, id, priority, how many entries at most to search from each end of a list
-- Returns {ok, ""}, {missing, why}, {conflict, status}, or {far, length of the list} where a list is longer than what
-- was searched and the task was not found: nothing was changed.
local id, priority, reach = ARGV[2], ARGV[3], tonumber(ARGV[4])
local h, why = fields(id, {'status', 'type', 'priority', 'queue'})
if not h then return {'missing', why} end
if not blank(h.status) and h.status ~= 'queued' then return {'conflict', h.status} end
local old = type_queue(h)
h.priority = priority
local target = type_queue(h)
if not blank(h.queue) and h.queue ~= old and h.queue ~= type_of(h) then
  redis.call('HSET', KEYS[1], 'priority', priority)
  return {'ok', ''}
end

-- take_out returns how many entries it removed from the queue, and the length
-- of the list if more of it would have to be searched.
local function take_out(name)
  local key = queue_key(name)
  local n = length(key)
  if n <= 2 * reach then return list('LREM', key, 0, id) or 0 end
  if redis.call('LPOS', key, id, 'MAXLEN', reach) then return redis.call('LREM', key, 1, id) end
  if redis.call('LPOS', key, id, 'RANK', -1, 'MAXLEN', reach) then return redis.call('LREM', key, -1, id) end
  return 0, n
end

local found, far = take_out(type_of(h))
if target ~= old then
  local more, n = take_out(old)
  found, far = found + more, far or n
end
if found == 0 and far and not redis.call('ZSCORE', KEYS[3], id) then return {'far', int(far)} end
redis.call('HSET', KEYS[1], 'priority', priority)
if found > 0 or not blank(h.queue) then
  redis.call('HSET', KEYS[1], 'queue', target)
  redis.call('SADD', KEYS[2], target)
end
if found > 0 then enqueue(id, target, now_ms(), 0, false) end
return {'ok', ''}
