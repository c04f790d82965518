-- Helpers shared by all moves; those that a script needs are put in front of it.
--
-- ARGV[1] is the key prefix in every script ("" outside Redis Cluster).
-- Times are milliseconds on the server's clock unless a name says seconds.
-- Numbers are always formatted: Lua would turn 1796037562123 into an exponent.
--
-- A caller declares in KEYS every key that it knows before the call. The names
-- here are those of keys.go: they are what a script finds the declared keys by,
-- and how it names a key that only its own reading reveals. The header of each
-- script lists those under "found".
local P = ARGV[1]

local DELAYED, MISSING, PAUSED = P .. 'autobot:delayed', P .. 'autobot:missing', P .. 'autobot:paused'
local CORDONED, QUEUES, INBOXES = P .. 'autobot:cordoned', P .. 'autobot:queues', P .. 'autobot:inboxes'
local REGISTERED = P .. 'workers:registered'
local INDEX = {completed = P .. 'autobot:completed', failed_permanent = P .. 'autobot:failed',
               cancelled = P .. 'autobot:cancelled'}
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
local function inbox_key(worker) return P .. 'autobot:inbox:' .. worker end
local function unique_key(key) return P .. 'autobot:unique:' .. key end
local function failover_key(worker) return P .. 'autobot:failover:' .. worker end

-- A script that works through a batch stops when it has done enough, and its
-- caller calls again for the rest. The unit is one entry of a list that is
-- searched, about 10 ns; the budget is about three milliseconds.
local ITEM = 1500 -- the cost of a task whose lists are short
local CALL = 200  -- of a look into one more list, however short
local budget = 300000
local function spend(n) budget = budget - n end
local function spent() return budget <= 0 end

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
  local n = h.result_ttl and tonumber(h.result_ttl)
  if n and n >= 1 and n <= 315360000 then return int(n) end
  return default
end

-- list calls a command on a list. A key of another type holds nothing for us:
-- the answer is nil.
local function list(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err then return r end
  if string.find(r.err, 'WRONGTYPE', 1, true) then return nil end
  error(r.err)
end

-- add_all puts many members into a set, a part of them with each command: Lua
-- cannot unpack any number.
local function add_all(key, members)
  for i = 1, #members, 1000 do
    redis.call('SADD', key, unpack(members, i, math.min(i + 999, #members)))
  end
end

-- length is the number of entries of a list as the script found it.
local lengths = {}
local function length(key)
  if not lengths[key] then lengths[key] = list('LLEN', key) or 0 end
  return lengths[key]
end

-- remove takes one entry off a list and returns how many there were (0 or 1).
-- Claims push to the head of a processing list, so that the newest entries are
-- there and the oldest at the tail: in a long list both ends are tried first.
local PROBE = 500
local function remove(key, id)
  local n = length(key)
  if n > 2 * PROBE then
    for _, first in ipairs({1, -1}) do
      spend(CALL + PROBE)
      if list('LPOS', key, id, 'RANK', first, 'MAXLEN', PROBE) then return redis.call('LREM', key, first, id) end
    end
  end
  spend(CALL + n)
  return list('LREM', key, 1, id) or 0
end

-- remove_all is remove for many ids, none of them twice. Those that are not
-- found come back. The claims that end together were made together as a rule:
-- then one look at the head of the list finds them all.
local function remove_all(key, ids)
  local missed, want, left = {}, {}, #ids
  if left < 4 then
    for _, id in ipairs(ids) do
      if remove(key, id) == 0 then table.insert(missed, id) end
    end
    return missed
  end
  for _, id in ipairs(ids) do want[id] = true end
  local others, last, before = {}, 0, 0
  spend(CALL + 20 * left)
  for i, id in ipairs(list('LRANGE', key, 0, 2 * left + 15) or {}) do
    if want[id] then
      want[id] = nil
      left, last, before = left - 1, i, #others
      if left == 0 then break end
    else
      others[#others + 1] = id
    end
  end
  if last > 0 then
    redis.call('LTRIM', key, last, -1)
    local back = {}
    for i = before, 1, -1 do back[#back + 1] = others[i] end
    if before > 0 then redis.call('LPUSH', key, unpack(back)) end
  end
  if left > 0 then
    for _, id in ipairs(ids) do
      if want[id] and remove(key, id) == 0 then table.insert(missed, id) end
    end
  end
  return missed
end

-- holds says whether a list has the id.
local function holds(key, id)
  spend(CALL + length(key))
  return list('LPOS', key, id) and true or false
end

-- Milliseconds of a stored time in (possibly fractional) seconds, nil if none.
local function time_ms(s)
  local n = tonumber(s or '')
  if n == nil or n ~= n or n <= 0 then return nil end
  return n * 1000
end

-- fields reads some fields of a task hash into a table by name. It returns nil
-- and why ('missing' or 'wrongtype') when there is no such hash.
local function fields(id, names)
  local key = task_key(id)
  local v = redis.pcall('HMGET', key, unpack(names))
  if v.err then
    if string.sub(v.err, 1, 9) == 'WRONGTYPE' or string.find(v.err, 'WRONGTYPE', 1, true) then return nil, 'wrongtype' end
    error(v.err)
  end
  local h, any = {}, false
  for i, name in ipairs(names) do
    h[name] = v[i]
    if v[i] then any = true end
  end
  if not any and redis.call('EXISTS', key) == 0 then return nil, 'missing' end
  -- No task waits in a processing list, whatever somebody has written.
  if h.queue and (h.queue == 'processing' or string.sub(h.queue, -11) == ':processing') then h.queue = false end
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

-- with_type reads what type_queue needs of a task where that was left out.
local function with_type(id, h)
  if h.type ~= nil then return h end
  local v = redis.call('HMGET', task_key(id), 'type', 'priority')
  h.type, h.priority = v[1], v[2]
  return h
end

local function publish(channel, message)
  redis.call('PUBLISH', P .. channel, message)
end

-- announce_all tells watchers that tasks have changed to one state.
local function announce_all(ids, status, worker, data)
  local rest = ',"status":"' .. status .. '"'
  local call, encode = redis.call, cjson.encode
  if worker then rest = rest .. ',"worker":' .. encode(worker) end
  if data then rest = rest .. ',"data":' .. encode(data) end
  rest = rest .. '}'
  local head, all = P .. 'task:', P .. 'autobot:events'
  for _, id in ipairs(ids) do
    local m = '{"kind":"state","task":' .. encode(id) .. rest
    call('PUBLISH', head .. id .. ':events', m)
    call('PUBLISH', all, m)
  end
end

-- announce tells watchers about a change of state.
local function announce(id, status, worker, data) announce_all({id}, status, worker, data) end

local function alarm(what, id, queue, detail)
  publish('autobot:events', cjson.encode({kind = 'alarm', task = id, data = {alarm = what, queue = queue, detail = detail}}))
end

-- unique_holder is the task that holds a unique key: one that has not ended. A
-- foreign worker ends tasks without giving their keys back.
local function unique_holder(key)
  local id = redis.call('GET', unique_key(key))
  local h = id and fields(id, {'status'})
  if not h or (h.status and (INDEX[h.status] or h.status == 'failed')) then return nil end
  return id
end

local function release_unique(key, id)
  if blank(key) then return end
  if redis.call('GET', unique_key(key)) == id then redis.call('DEL', unique_key(key)) end
end

-- end_task puts a task into a terminal state. extra is a flat list of fields.
local function end_task(id, status, now, worker, unique, extra)
  redis.call('HSET', task_key(id), 'status', status, unpack(extra))
  redis.call('ZADD', INDEX[status], int(now), id)
  release_unique(unique, id)
  announce(id, status, worker)
end

-- push puts a waiting id into its queue. Where the key is no list it is tried
-- again a little later: the id must not get lost.
local function push(queue, id, now, front)
  if list(front and 'RPUSH' or 'LPUSH', queue_key(queue), id) then return end
  redis.call('ZADD', DELAYED, int(now + 5000), id)
  alarm('quarantined', id, queue, 'the queue is not a list')
end

-- unqueue takes a waiting id out of wherever it waits, or was just popped to.
-- Foreign clients do not say where they put it: then all lists are looked at.
-- Very long ones are not searched; their ids are dropped when they are popped.
local function unqueue(id, h)
  local found, left, tried = redis.call('ZREM', DELAYED, id), 100000, {}
  local function try(key)
    local n = list('LLEN', key) or 0
    if n > left then return end
    left = left - n
    if n > 0 then found = found + (list('LREM', key, 0, id) or 0) end
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
  for _, worker in ipairs(redis.call('SMEMBERS', INBOXES)) do try(inbox_key(worker)) end
  if found > 0 then return end
  for _, name in ipairs(redis.call('SMEMBERS', QUEUES)) do try_queue(name) end
end

-- empty_inbox gives up to n tasks that were placed on a worker to everybody and
-- returns how many are left.
local function empty_inbox(worker, now, n)
  local inbox = inbox_key(worker)
  for _ = 1, n do
    local id = redis.call('RPOP', inbox)
    if not id then break end
    local h = fields(id, {'status', 'type', 'priority', 'queue'})
    if h and (blank(h.status) or h.status == 'queued') then push(blank(h.queue) and type_queue(h) or h.queue, id, now) end
  end
  local left = redis.call('LLEN', inbox)
  if left == 0 then redis.call('SREM', INBOXES, worker) end
  return left
end

-- enqueue makes a waiting id claimable: after delay ms, or at once at the back
-- (or, with front, at the front) of its queue.
local function enqueue(id, queue, now, delay, front)
  if delay > 0 then
    redis.call('ZADD', DELAYED, int(now + delay), id)
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
  if not blank(h.queue) and remove(processing_key(h.queue), id) > 0 then return h.queue end
  local origin = nil
  local tried = {[h.queue or ''] = true}
  local function try(name)
    if blank(name) or tried[name] then return end
    tried[name] = true
    if remove(processing_key(name), id) > 0 and not origin then origin = name end
  end
  try(hint)
  if origin then return origin end
  with_type(id, h)
  try(type_queue(h))
  try(type_of(h))
  if origin then return origin end
  for _, name in ipairs(redis.call('SMEMBERS', QUEUES)) do
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

-- settle works through the outcomes in ARGV, from first on, each of the given
-- width and beginning with id, attempt and queue. The fence is the worker and
-- the attempt: accept(i, id, h) gets what still is the worker's and returns the
-- answer; again(h) says whether a task of the same attempt that is not shows
-- that this outcome had been accepted before. extra names fields for accept;
-- type and priority are left for with_type.
-- It returns the answers, fewer than there are outcomes when enough was done,
-- and whether that was all.
local function settle(worker, first, width, extra, accept, again)
  local own, answers = worker_key(worker, 'tasks'), {}
  local names = {'status', 'worker_id', 'attempt', 'queue', 'unique_key', unpack(extra)}
  for i = first, #ARGV, width do
    if spent() then return answers, false end
    spend(ITEM)
    local id, answer = ARGV[i], 'stale'
    local h = fields(id, names)
    local ours = h and h.status == 'running' and h.worker_id == worker
    if not h then
      redis.call('SREM', own, id)
      remove(processing_key(ARGV[i + 2]), id)
      answer = 'gone'
    elseif ours and h.attempt == ARGV[i + 1] then
      answer = accept(i, id, h)
    else
      if not ours then redis.call('SREM', own, id) end
      if h.attempt == ARGV[i + 1] and again(h) then answer = 'already' end
    end
    table.insert(answers, answer)
  end
  return answers, true
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
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', int(now), 'LIMIT', 0, n)) do
    redis.call('ZREM', DELAYED, id)
    local h = fields(id, {'status', 'type', 'priority', 'queue', 'run_at'})
    if h and (blank(h.status) or h.status == 'queued') then
      push(blank(h.queue) and type_queue(h) or h.queue, id, now)
      moved = moved + 1
    end
  end
  return moved
end
