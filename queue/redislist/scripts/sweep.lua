-- Claiming, shared by claim, adopt and finish.
--
-- A claim context c is the decoded JSON of a claim request:
--   w worker, g generation, q queues in order, t {type -> index of f, from 1},
--   f free slots of each executor, m free slots in all, p promote first,
--   i look into the inbox first, b largest payload in bytes
-- The reply is {state, now, claims, notes, missing, excluded, paused, more}:
--   claims   {queue, id, flat hash as it is or packed}
--   notes    {id, queue, kind, detail}
--   missing  {queue, id}                 excluded id
--   more     1 when the sweep ended because enough was done
local CLAIM_FIELDS = {'status', 'type', 'priority', 'attempt', 'exclude', 'deadline', 'cancel_requested', 'failed_at',
                      'completed_at', 'unique_key'}

-- packed is a flat hash as one string (MessagePack), which costs the server and
-- the client much less than forty small ones. Large payloads are not copied once
-- more for it, and a server without the library answers the list itself.
local can_pack, pack = pcall(function() return cmsgpack.pack end)
local function packed(flat, payload)
  if not can_pack or (payload and #payload > 65536) then return flat end
  return pack(flat)
end

local function new_reply(state, now)
  return {state, int(now), {}, {}, {}, {}, {}, 0}
end

local function note(r, id, queue, kind, detail)
  table.insert(r[4], {id, queue, kind, detail or ''})
end

-- A name of our own key grammar cannot be an id: its keys would collide.
local function reserved(id)
  if id == '' or #id > 512 then return true end
  if not string.find(id, ':', 1, true) then return false end
  for _, suffix in ipairs({':result', ':failure', ':progress', ':events'}) do
    if #id >= #suffix and string.sub(id, -#suffix) == suffix then return true end
  end
  return false
end

local function excludes(list, worker)
  if blank(list) then return false end
  local ok, v = pcall(cjson.decode, list)
  if not ok or type(v) ~= 'table' then return false end
  for _, w in pairs(v) do
    if w == worker then return true end
  end
  return false
end

-- retried_by_hand clears what an operator's retry clears, for a task that was
-- ended and has been pushed again with redis-cli alone. It says whether it did.
local function retried_by_hand(id, h)
  if blank(h.failed_at) and blank(h.completed_at) then return false end
  local n = redis.call('ZREM', INDEX.failed_permanent, id) + redis.call('ZREM', INDEX.completed, id)
    + redis.call('ZREM', INDEX.cancelled, id)
  if n == 0 then return false end
  if not blank(h.unique_key) and not unique_holder(h.unique_key) then
    redis.call('SET', unique_key(h.unique_key), id)
  end
  redis.call('HDEL', task_key(id), 'crash_count', 'death_count', 'cancel_requested', 'exclude', 'error_code',
    'failed_at', 'completed_at')
  redis.call('HSET', task_key(id), 'retry_count', '0')
  h.cancel_requested, h.exclude = false, false
  return true
end

-- move_on sends an id that was taken out of this queue to the queue of its
-- type, or, when that is this one, aside for a second. Nothing is counted.
local function move_on(id, h, queue, now)
  local target = type_queue(h)
  if target ~= queue then
    redis.call('HSET', task_key(id), 'queue', target)
    redis.call('SADD', QUEUES, target)
    push(target, id, now)
    return 'moved to ' .. target
  end
  redis.call('HSET', task_key(id), 'queue', queue)
  redis.call('ZADD', DELAYED, int(now + 1000), id)
  return 'put off for a second'
end

-- look reads a task hash for a claim: whole, for it goes into the reply, unless
-- its payload is too large to be handed out. It returns the fields by name, the
-- flat hash or nil, and the size of the payload; without a hash, nil and why.
local function look(c, id)
  local key = task_key(id)
  local size = redis.pcall('HSTRLEN', key, 'payload')
  if type(size) == 'table' then
    if string.find(size.err, 'WRONGTYPE', 1, true) then return nil, 'wrongtype' end
    error(size.err)
  end
  if size > c.b then
    local h, why = fields(id, CLAIM_FIELDS)
    return h, why, size
  end
  local flat, h = redis.call('HGETALL', key), {}
  if #flat == 0 then return nil, 'missing' end
  spend(size / 8) -- it is copied twice
  for i = 1, #flat, 2 do h[flat[i]] = flat[i + 1] end
  return h, flat, size
end

-- forget_missing notes that an id has a hash. Nearly always none is missing.
local some_missing = nil
local function forget_missing(id)
  if some_missing == nil then some_missing = redis.call('EXISTS', MISSING) == 1 end
  if some_missing then redis.call('ZREM', MISSING, id) end
end

-- decide says what becomes of an id that is taken from queue, and does it but
-- for the lists: 'claim' (then with the fields, the flat hash and the type that
-- was inferred), 'keep' in the processing list, 'drop', or 'full' (back to where
-- it was, and no more from there).
local function decide(c, r, queue, id, now)
  if reserved(id) then
    note(r, id, queue, 'quarantined', 'the id collides with the names of our keys')
    alarm('quarantined', id, queue, 'the id collides with the names of our keys')
    return 'drop'
  end
  local h, flat, size = look(c, id)
  if not h and flat == 'wrongtype' then
    note(r, id, queue, 'quarantined', 'the task key is not a hash')
    alarm('quarantined', id, queue, 'the task key is not a hash')
    return 'drop'
  end
  if not h then
    some_missing = true
    local first = redis.call('ZSCORE', MISSING, id)
    if first and now - tonumber(first) >= 1000 then
      redis.call('ZREM', MISSING, id)
      note(r, id, queue, 'missing_task', 'no hash after a second')
      alarm('missing_task', id, queue, 'no hash after a second')
      return 'drop'
    end
    if not first then redis.call('ZADD', MISSING, int(now), id) end
    table.insert(r[5], {queue, id})
    return 'keep'
  end
  forget_missing(id)
  if not blank(h.status) and h.status ~= 'queued' then
    note(r, id, queue, 'duplicate', h.status)
    return 'drop'
  end
  if retried_by_hand(id, h) and size <= c.b then h, flat = look(c, id) end
  if h.cancel_requested == '1' then
    end_task(id, 'cancelled', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'CANCELLED',
      'last_error', 'cancelled before it started again'})
    note(r, id, queue, 'cancelled')
    return 'drop'
  end
  local deadline = time_ms(h.deadline)
  if deadline and now > deadline then
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now),
      'error_code', 'DEADLINE_EXCEEDED', 'last_error', 'the deadline passed before the task could start'})
    note(r, id, queue, 'expired')
    return 'drop'
  end
  local inferred = nil
  if blank(h.type) then
    -- the list tells the type when the hash does not
    local tail = string.match(queue, '^%l+:(.+)$') or queue
    if c.t[tail] then inferred = tail; h.type = tail end
  end
  local typ = type_of(h)
  if #typ > 64 or typ == 'processing' or string.find(typ, '[:%c]') then
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'INVALID_INPUT',
      'last_error', 'the task type cannot name a queue'})
    note(r, id, queue, 'refused', 'the task type cannot name a queue')
    return 'drop'
  end
  local group = c.t[typ]
  if not group then
    note(r, id, queue, 'routed', move_on(id, h, queue, now))
    return 'drop'
  end
  if excludes(h.exclude, c.w) then
    note(r, id, queue, 'excluded', move_on(id, h, queue, now))
    table.insert(r[6], id)
    return 'drop'
  end
  if size > c.b then
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'TOO_LARGE',
      'last_error', 'the payload is larger than ' .. int(c.b) .. ' bytes: pass large input as an artifact'})
    note(r, id, queue, 'refused', 'payload too large')
    return 'drop'
  end
  if c.m <= 0 or (c.f[group] or 0) <= 0 then
    note(r, id, queue, 'full')
    return 'full'
  end
  c.m = c.m - 1
  c.f[group] = c.f[group] - 1
  return 'claim', h, flat, inferred
end

-- claim makes a task running that is in the processing list and the owner set.
local function claim(c, r, queue, id, at, h, flat, inferred)
  local set = {'status', 'running', 'worker_id', c.w, 'started_at', at, 'generation', c.g,
               'attempt', h.attempt and int(whole(h.attempt) + 1) or '1'}
  if h.queue ~= queue then set[#set + 1], set[#set + 2] = 'queue', queue end
  if inferred then set[#set + 1], set[#set + 2] = 'type', inferred end
  redis.call('HSET', task_key(id), unpack(set))
  spend(ITEM) -- it costs twice what another id does
  -- A later value in the flat hash replaces an earlier one.
  local n = #flat
  for i = 1, #set do flat[n + i] = set[i] end
  r[3][#r[3] + 1] = {queue, id, packed(flat, h.payload)}
end

-- take decides about one id, which sits in the processing list of queue. It
-- returns 'stop' when no more may be taken from this queue.
local function take(c, r, queue, id, now, back)
  local verdict, h, flat, inferred = decide(c, r, queue, id, now)
  if verdict == 'claim' then
    redis.call('SADD', worker_key(c.w, 'tasks'), id)
    claim(c, r, queue, id, seconds(now), h, flat, inferred)
    announce(id, 'running', c.w)
  elseif verdict ~= 'keep' then
    redis.call('LREM', processing_key(queue), 1, id)
  end
  if verdict == 'full' then
    redis.call('RPUSH', back or queue_key(queue), id)
    return 'stop'
  end
end

-- take_all takes up to n ids from the right end of a queue, all in one go: what
-- is claimed goes to the head of the processing list, as a pop would put it.
-- It returns 'stop' when no more may be taken from this queue, or there are none.
local function take_all(c, r, queue, n, now)
  local waiting = list('LRANGE', queue_key(queue), -n, -1)
  if waiting and #waiting == 0 then return 'stop' end
  if not waiting or not list('LLEN', processing_key(queue)) then
    note(r, '', queue, 'quarantined', 'the queue or its processing list is not a list')
    return 'stop'
  end
  local moved, own, claims, examined, stop = {}, {}, {}, 0, nil
  for i = #waiting, 1, -1 do
    local id = waiting[i]
    if examined > 0 and spent() then break end
    spend(ITEM)
    if claims[id] then
      note(r, id, queue, 'duplicate', 'running')
    else
      local verdict, h, flat, inferred = decide(c, r, queue, id, now)
      if verdict == 'full' then stop = 'stop'; break end
      if verdict ~= 'drop' then moved[#moved + 1] = id end
      if verdict == 'claim' then
        own[#own + 1] = id
        claims[id] = {h, flat, inferred}
      end
    end
    examined = examined + 1
  end
  if #own > 0 then redis.call('SADD', worker_key(c.w, 'tasks'), unpack(own)) end
  if #moved > 0 then redis.call('LPUSH', processing_key(queue), unpack(moved)) end
  if examined > 0 then redis.call('LTRIM', queue_key(queue), 0, -examined - 1) end
  local at = seconds(now)
  for _, id in ipairs(own) do
    local x = claims[id]
    claim(c, r, queue, id, at, x[1], x[2], x[3])
  end
  announce_all(own, 'running', c.w)
  if #waiting < n then stop = 'stop' end
  return stop
end

local function take_inbox(c, r, now)
  local inbox = inbox_key(c.w)
  while c.m > 0 and not spent() do
    local id = redis.call('LINDEX', inbox, -1)
    if not id then return end
    spend(ITEM)
    -- The id goes through the processing list of its type's queue, so that
    -- everybody who looks for it later finds it where any other task is.
    local h = fields(id, {'type', 'priority'})
    local queue = h and type_queue(h) or 'normal:default'
    if not list('RPOPLPUSH', inbox, processing_key(queue)) then
      redis.call('RPOP', inbox)
      redis.call('ZADD', DELAYED, int(now + 5000), id) -- then for everybody: see push
      note(r, '', queue, 'quarantined', 'the queue or its processing list is not a list')
    elseif take(c, r, queue, id, now, inbox) == 'stop' then return end
  end
end

local function sweep(c, now)
  local state = generation_state(c.w, c.g)
  local r = new_reply(state, now)
  if state ~= 'ok' then return r end
  -- One command answers for an idle worker, whatever it watches, and one more
  -- for a busy one that nothing is out of the ordinary.
  local rare = {PAUSED, CORDONED, DELAYED, MISSING, inbox_key(c.w)}
  local lists, all = {}, {unpack(rare)}
  for i, name in ipairs(c.q) do
    lists[i] = queue_key(name)
    all[#rare + i] = lists[i]
  end
  if redis.call('EXISTS', unpack(all)) == 0 then return r end
  local paused = {}
  if redis.call('EXISTS', unpack(rare)) > 0 then
    r[7] = redis.call('SMEMBERS', PAUSED)
    for _, name in ipairs(r[7]) do paused[name] = true end
    if redis.call('SISMEMBER', CORDONED, c.w) == 1 then
      r[1] = 'cordoned'
      return r
    end
    if c.p then promote(now, 100) end
    if c.m > 0 and c.i then take_inbox(c, r, now) end
    if spent() then
      if c.m > 0 then r[8] = 1 end
      return r
    end
    if #lists == 0 or redis.call('EXISTS', unpack(lists)) == 0 then return r end
  else
    some_missing = false
  end
  if c.m <= 0 then return r end
  for i, name in ipairs(c.q) do
    local typed = c.t[string.match(name, '^%l+:(.+)$') or name]
    while not paused[name] and c.m > 0 and not spent() do
      -- No more is looked at than there are slots for, and time.
      local n = math.min(c.m, typed and c.f[typed] or c.m, math.ceil(budget / (2 * ITEM)))
      if take_all(c, r, name, math.max(n, 1), now) == 'stop' then break end
    end
  end
  if spent() and c.m > 0 then r[8] = 1 end
  return r
end
