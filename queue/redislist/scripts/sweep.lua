-- Claiming, shared by claim, adopt and finish.
--
-- A claim context c is the decoded JSON of a claim request:
--   w worker, g generation, q queues in order, t {type -> index of f, from 1},
--   f free slots of each executor, m free slots in all, p promote first,
--   i look into the inbox first, b largest payload in bytes
-- The reply is {state, now, claims, notes, missing, excluded, paused, more}:
--   claims   {queue, id, flat hash}      notes    {id, queue, kind, detail}
--   missing  {queue, id}                 excluded id
--   more     1 when the sweep ended because enough was done
local CLAIM_FIELDS = {'status', 'type', 'priority', 'attempt', 'exclude', 'deadline', 'cancel_requested', 'failed_at',
                      'completed_at', 'unique_key'}

local function new_reply(state, now)
  return {state, int(now), {}, {}, {}, {}, {}, 0}
end

local function note(r, id, queue, kind, detail)
  table.insert(r[4], {id, queue, kind, detail or ''})
end

-- A name of our own key grammar cannot be an id: its keys would collide.
local function reserved(id)
  if id == '' or #id > 512 then return true end
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
-- ended and has been pushed again with redis-cli alone.
local function retried_by_hand(id, h)
  if blank(h.failed_at) and blank(h.completed_at) then return end
  local n = redis.call('ZREM', INDEX.failed_permanent, id) + redis.call('ZREM', INDEX.completed, id)
    + redis.call('ZREM', INDEX.cancelled, id)
  if n == 0 then return end
  if not blank(h.unique_key) and not unique_holder(h.unique_key) then
    redis.call('SET', unique_key(h.unique_key), id)
  end
  redis.call('HDEL', task_key(id), 'crash_count', 'death_count', 'cancel_requested', 'exclude', 'error_code',
    'failed_at', 'completed_at')
  redis.call('HSET', task_key(id), 'retry_count', '0')
  h.cancel_requested, h.exclude = false, false
end

-- move_on takes id out of this queue: to the queue of its type, or, when it is
-- there already, aside for a second. Nothing is counted.
local function move_on(id, h, queue, now)
  local target = type_queue(h)
  redis.call('LREM', processing_key(queue), 1, id)
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

-- take decides about id, which sits in the processing list of queue. It
-- returns 'stop' when no more may be taken from this queue.
local function take(c, r, queue, id, now, back)
  local processing = processing_key(queue)
  if reserved(id) then
    redis.call('LREM', processing, 1, id)
    note(r, id, queue, 'quarantined', 'the id collides with the names of our keys')
    alarm('quarantined', id, queue, 'the id collides with the names of our keys')
    return
  end
  local h, why = fields(id, CLAIM_FIELDS)
  if why == 'wrongtype' then
    redis.call('LREM', processing, 1, id)
    note(r, id, queue, 'quarantined', 'the task key is not a hash')
    alarm('quarantined', id, queue, 'the task key is not a hash')
    return
  end
  if why == 'missing' then
    local first = redis.call('ZSCORE', MISSING, id)
    if first and now - tonumber(first) >= 1000 then
      redis.call('LREM', processing, 1, id)
      redis.call('ZREM', MISSING, id)
      note(r, id, queue, 'missing_task', 'no hash after a second')
      alarm('missing_task', id, queue, 'no hash after a second')
    else
      if not first then redis.call('ZADD', MISSING, int(now), id) end
      table.insert(r[5], {queue, id})
    end
    return
  end
  redis.call('ZREM', MISSING, id)
  if not blank(h.status) and h.status ~= 'queued' then
    redis.call('LREM', processing, 1, id)
    note(r, id, queue, 'duplicate', h.status)
    return
  end
  retried_by_hand(id, h)
  if h.cancel_requested == '1' then
    redis.call('LREM', processing, 1, id)
    end_task(id, 'cancelled', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'CANCELLED',
      'last_error', 'cancelled before it started again'})
    note(r, id, queue, 'cancelled')
    return
  end
  local deadline = time_ms(h.deadline)
  if deadline and now > deadline then
    redis.call('LREM', processing, 1, id)
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now),
      'error_code', 'DEADLINE_EXCEEDED', 'last_error', 'the deadline passed before the task could start'})
    note(r, id, queue, 'expired')
    return
  end
  local inferred = nil
  if blank(h.type) then
    -- the list tells the type when the hash does not
    local tail = string.match(queue, '^%l+:(.+)$') or queue
    if c.t[tail] then inferred = tail; h.type = tail end
  end
  local typ = type_of(h)
  if #typ > 64 or typ == 'processing' or string.find(typ, '[:%c]') then
    redis.call('LREM', processing, 1, id)
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'INVALID_INPUT',
      'last_error', 'the task type cannot name a queue'})
    note(r, id, queue, 'refused', 'the task type cannot name a queue')
    return
  end
  local group = c.t[typ]
  if not group then
    note(r, id, queue, 'routed', move_on(id, h, queue, now))
    return
  end
  if excludes(h.exclude, c.w) then
    note(r, id, queue, 'excluded', move_on(id, h, queue, now))
    table.insert(r[6], id)
    return
  end
  local size = redis.call('HSTRLEN', task_key(id), 'payload')
  spend(size / 8) -- copied into the reply
  if size > c.b then
    redis.call('LREM', processing, 1, id)
    end_task(id, 'failed_permanent', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'TOO_LARGE',
      'last_error', 'the payload is larger than ' .. int(c.b) .. ' bytes: pass large input as an artifact'})
    note(r, id, queue, 'refused', 'payload too large')
    return
  end
  if c.m <= 0 or (c.f[group] or 0) <= 0 then
    redis.call('LREM', processing, 1, id)
    redis.call('RPUSH', back or queue_key(queue), id)
    note(r, id, queue, 'full')
    return 'stop'
  end
  local set = {'status', 'running', 'worker_id', c.w, 'started_at', seconds(now), 'generation', c.g, 'queue', queue,
               'attempt', int(whole(h.attempt) + 1)}
  if inferred then
    table.insert(set, 'type')
    table.insert(set, inferred)
  end
  redis.call('HSET', task_key(id), unpack(set))
  redis.call('SADD', worker_key(c.w, 'tasks'), id)
  spend(ITEM) -- it costs twice what another id does
  c.m = c.m - 1
  c.f[group] = c.f[group] - 1
  announce(id, 'running', c.w)
  table.insert(r[3], {queue, id, redis.call('HGETALL', task_key(id))})
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
  local rare = {PAUSED, CORDONED, DELAYED, inbox_key(c.w)}
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
  end
  if c.m <= 0 then return r end
  for i, name in ipairs(c.q) do
    while not paused[name] and c.m > 0 and not spent() do
      local id = redis.pcall('RPOPLPUSH', lists[i], processing_key(name))
      if type(id) == 'table' then
        if not string.find(id.err, 'WRONGTYPE', 1, true) then error(id.err) end
        note(r, '', name, 'quarantined', 'the queue or its processing list is not a list')
        break
      end
      if not id then break end
      spend(ITEM)
      if take(c, r, name, id, now) == 'stop' then break end
    end
  end
  if spent() and c.m > 0 then r[8] = 1 end
  return r
end
