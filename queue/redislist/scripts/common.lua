-- Helpers shared by all moves; prepended to every script.
--
-- ARGV[1] is the key prefix in every script ("" outside Redis Cluster).
-- Times are milliseconds on the server's clock unless a name says seconds.
-- Numbers are always formatted: Lua would turn 1796037562123 into an exponent.
local P = ARGV[1]

local INDEX = {completed = 'autobot:completed', failed_permanent = 'autobot:failed', cancelled = 'autobot:cancelled'}
local PRIORITY = {critical = 'critical', high = 'high', normal = 'normal', low = 'low',
                  ['4'] = 'critical', ['3'] = 'high', ['2'] = 'normal', ['1'] = 'low'}
local MAX_RETRIES = 1000

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function int(n) return string.format('%.0f', n) end
local function seconds(ms) return string.format('%.3f', ms / 1000) end
local function task_key(id) return P .. 'task:' .. id end
local function queue_key(name) return P .. 'queue:' .. name end
local function processing_key(name) return P .. 'queue:' .. name .. ':processing' end
local function worker_key(id, what) return P .. 'worker:' .. id .. ':' .. what end

local function blank(s) return s == nil or s == false or s == '' end

-- count reads a counter that anybody may have written; nonsense is the default.
local function count(s, default)
  local n = tonumber(s or '')
  if n == nil or n ~= n or n < 0 then return default end
  if n > MAX_RETRIES then return MAX_RETRIES end
  return math.floor(n)
end

-- whole reads a number that counts something, as exactly as Lua can; nonsense is 0.
local function whole(s)
  local n = tonumber(s or '') or 0
  if n >= 0 and n < 2 ^ 53 - 1 then return math.floor(n) end
  return 0
end

-- ttl_of is the time, in seconds, that a task's result or failure is kept.
local function ttl_of(h, default)
  local n = tonumber(h.result_ttl or '')
  if n and n >= 1 and n <= 315360000 then return int(n) end
  return int(tonumber(default))
end

-- list calls a command on a list. A key of another type holds nothing for us:
-- the answer is nil.
local function list(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err then return r end
  if string.find(r.err, 'WRONGTYPE', 1, true) then return nil end
  error(r.err)
end

local function lrem(key, n, id) return list('LREM', key, n, id) or 0 end

-- Milliseconds of a stored time in (possibly fractional) seconds, nil if none.
local function time_ms(s)
  local n = tonumber(s or '')
  if n == nil or n ~= n or n <= 0 then return nil end
  return n * 1000
end

-- fields reads some fields of a task hash into a table by name. It returns nil
-- and why ('missing' or 'wrongtype') when there is no such hash.
local function fields(id, names)
  local v = redis.pcall('HMGET', task_key(id), unpack(names))
  if v.err then
    if string.sub(v.err, 1, 9) == 'WRONGTYPE' or string.find(v.err, 'WRONGTYPE', 1, true) then return nil, 'wrongtype' end
    error(v.err)
  end
  local h, any = {}, false
  for i, name in ipairs(names) do
    h[name] = v[i]
    if v[i] then any = true end
  end
  if not any and redis.call('EXISTS', task_key(id)) == 0 then return nil, 'missing' end
  return h
end

-- type_of is the task type of a hash; the seed's default for a missing one is "default".
local function type_of(h)
  if blank(h.type) then return 'default' end
  return h.type
end

local function type_queue(h)
  return (PRIORITY[h.priority or ''] or 'normal') .. ':' .. type_of(h)
end

local function publish(channel, message)
  redis.call('PUBLISH', P .. channel, message)
end

-- announce tells watchers about a change of state.
local function announce(id, status, worker, data)
  local m = cjson.encode({kind = 'state', task = id, status = status, worker = worker, data = data})
  publish('task:' .. id .. ':events', m)
  publish('autobot:events', m)
end

local function alarm(what, id, queue, detail)
  publish('autobot:events', cjson.encode({kind = 'alarm', task = id, data = {alarm = what, queue = queue, detail = detail}}))
end

-- unique_holder is the task that holds a unique key: one that has not ended. A
-- foreign worker ends tasks without giving their keys back.
local function unique_holder(key)
  local id = redis.call('GET', P .. 'autobot:unique:' .. key)
  local h = id and fields(id, {'status'})
  if not h or (h.status and (INDEX[h.status] or h.status == 'failed')) then return nil end
  return id
end

local function release_unique(key, id)
  if blank(key) then return end
  local k = P .. 'autobot:unique:' .. key
  if redis.call('GET', k) == id then redis.call('DEL', k) end
end

-- end_task puts a task into a terminal state. extra is a flat list of fields.
local function end_task(id, status, now, worker, unique, extra)
  redis.call('HSET', task_key(id), 'status', status, unpack(extra))
  redis.call('ZADD', P .. INDEX[status], int(now), id)
  release_unique(unique, id)
  announce(id, status, worker)
end

-- push puts a waiting id into its queue. Where the key is no list it is tried
-- again a little later: the id must not get lost.
local function push(queue, id, now, front)
  if list(front and 'RPUSH' or 'LPUSH', queue_key(queue), id) then return end
  redis.call('ZADD', P .. 'autobot:delayed', int(now + 5000), id)
  alarm('quarantined', id, queue, 'the queue is not a list')
end

-- unqueue takes a waiting id out of wherever it waits, or was just popped to.
-- Foreign clients do not say where they put it: then all lists are looked at.
-- Very long ones are not searched; their ids are dropped when they are popped.
local function unqueue(id, h)
  local found, budget, tried = redis.call('ZREM', P .. 'autobot:delayed', id), 100000, {}
  local function try(key)
    local n = list('LLEN', key) or 0
    if n > budget then return end
    budget = budget - n
    if n > 0 then found = found + lrem(key, 0, id) end
  end
  local function try_queue(name)
    if blank(name) or tried[name] then return end
    tried[name] = true
    try(queue_key(name))
    try(processing_key(name))
  end
  try_queue(h.queue)
  try_queue(type_queue(h))
  try_queue(type_of(h))
  for _, worker in ipairs(redis.call('SMEMBERS', P .. 'autobot:inboxes')) do try(P .. 'autobot:inbox:' .. worker) end
  if found > 0 then return end
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'autobot:queues')) do try_queue(name) end
end

-- empty_inbox gives up to n tasks that were placed on a worker to everybody and
-- returns how many are left.
local function empty_inbox(worker, now, n)
  local inbox = P .. 'autobot:inbox:' .. worker
  for _ = 1, n do
    local id = redis.call('RPOP', inbox)
    if not id then break end
    local h = fields(id, {'status', 'type', 'priority', 'queue'})
    if h and (blank(h.status) or h.status == 'queued') then push(blank(h.queue) and type_queue(h) or h.queue, id, now) end
  end
  local left = redis.call('LLEN', inbox)
  if left == 0 then redis.call('SREM', P .. 'autobot:inboxes', worker) end
  return left
end

-- enqueue makes a waiting id claimable: after delay ms, or at once at the back
-- (or, with front, at the front) of its queue.
local function enqueue(id, queue, now, delay, front)
  if delay > 0 then
    redis.call('ZADD', P .. 'autobot:delayed', int(now + delay), id)
    announce(id, 'queued', nil, {delayed_until_ms = now + delay})
  else
    push(queue, id, now, front)
    announce(id, 'queued')
  end
end

-- leave_processing takes id off the processing list it sits in and returns the
-- queue it came from. Foreign clients do not write the queue field, or move an
-- id without changing it: then all candidates are looked at.
local function leave_processing(id, h, hint)
  if not blank(h.queue) and lrem(processing_key(h.queue), 1, id) > 0 then return h.queue end
  local origin = nil
  local tried = {[h.queue or ''] = true}
  local function try(name)
    if blank(name) or tried[name] then return end
    tried[name] = true
    if lrem(processing_key(name), 1, id) > 0 and not origin then origin = name end
  end
  try(hint)
  if origin then return origin end
  try(type_queue(h))
  try(type_of(h))
  if origin then return origin end
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'autobot:queues')) do
    try(name)
    if origin then return origin end
  end
  if not blank(h.queue) then return h.queue end
  return type_queue(h)
end

local DEATH_FIELDS = {'status', 'worker_id', 'type', 'priority', 'queue', 'retry_count', 'max_retries', 'death_count',
                      'cancel_requested', 'unique_key', 'attempt', 'generation'}

-- death is what happens to a running task whose worker died: queued again with
-- one more retry and death on its account, or failed_permanent.
-- Returns 'requeued' or 'failed'.
local function death(id, h, worker, now, o)
  local queue = leave_processing(id, h)
  redis.call('SREM', worker_key(worker, 'tasks'), id)
  if h.cancel_requested == '1' then
    end_task(id, 'cancelled', now, worker, h.unique_key, {'failed_at', seconds(now), 'error_code', 'CANCELLED',
      'last_error', 'cancelled; worker ' .. worker .. ' died meanwhile'})
    return 'failed'
  end
  local retries = count(h.retry_count, 0)
  local deaths = count(h.death_count, 0) + 1
  local poison = deaths >= o.max_deaths
  if retries >= count(h.max_retries, o.max_retries) or poison then
    local code = poison and 'POISON' or 'WORKER_DIED'
    end_task(id, 'failed_permanent', now, worker, h.unique_key, {'failed_at', seconds(now), 'death_count', int(deaths),
      'error_code', code, 'last_error', 'Worker ' .. worker .. ' died; retries exhausted'})
    return 'failed'
  end
  redis.call('HSET', task_key(id), 'status', 'queued', 'worker_id', '', 'previous_worker', worker, 'queue', queue,
    'requeued_at', seconds(now), 'retry_count', int(retries + 1), 'death_count', int(deaths),
    'last_error', 'Worker ' .. worker .. ' died')
  local delay = o.delay
  if delay > 0 then delay = delay * (1 + math.random() * 0.5) end
  enqueue(id, queue, now, math.floor(delay), o.front)
  return 'requeued'
end

-- requeue hands a task back uncounted, to the front of its queue.
local function requeue(id, h, now, queue, worker)
  if h.cancel_requested == '1' then
    end_task(id, 'cancelled', now, worker, h.unique_key, {'failed_at', seconds(now), 'error_code', 'CANCELLED',
      'last_error', 'cancelled; worker ' .. (worker or 'unknown') .. ' gave it back meanwhile'})
    return
  end
  redis.call('HSET', task_key(id), 'status', 'queued', 'worker_id', '', 'queue', queue, 'requeued_at', seconds(now))
  enqueue(id, queue, now, 0, true)
end

-- generation_state compares a worker's generation with the stored one: 'ok',
-- 'reregister' (unknown to the server) or 'superseded' (somebody newer).
local function generation_state(worker, generation)
  local stored = redis.call('HGET', worker_key(worker, 'config'), 'generation')
  if stored == generation then return 'ok' end
  if blank(stored) or tonumber(stored) == nil or tonumber(stored) < tonumber(generation) then return 'reregister' end
  return 'superseded'
end

-- leads says whether the caller's lease on leadership is current.
local function leads(holder, epoch)
  return redis.call('GET', P .. 'autobot:leader') == holder and redis.call('GET', P .. 'autobot:epoch') == epoch
end

local function promote(now, n)
  local moved = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'autobot:delayed', '-inf', int(now), 'LIMIT', 0, n)) do
    redis.call('ZREM', P .. 'autobot:delayed', id)
    local h = fields(id, {'status', 'type', 'priority', 'queue', 'run_at'})
    if h and (blank(h.status) or h.status == 'queued') then
      push(blank(h.queue) and type_queue(h) or h.queue, id, now)
      moved = moved + 1
    end
  end
  return moved
end
