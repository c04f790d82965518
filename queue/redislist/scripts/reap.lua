-- reap looks after ids that hang in a processing list.
-- KEYS  leader, epoch, queue, processing list
-- ARGV  prefix, holder, epoch, queue, ids...
-- Returns {state, removed, requeued ids, dead}; dead holds owner, id pairs. state: ok, not_leader.
local queue = ARGV[4]
if not leads(ARGV[2], ARGV[3]) then return {'not_leader', 0, {}, {}} end
local now, removed, requeued, dead = now_ms(), 0, {}, {}
local FIELDS = {'status', 'worker_id', 'generation', 'type', 'priority', 'queue', 'unique_key', 'cancel_requested'}

local function drop(id)
  removed = removed + redis.call('LREM', KEYS[4], 1, id)
end

local function put_back(id, h)
  redis.call('LREM', KEYS[4], 1, id)
  requeue(id, h, now, queue)
  table.insert(requeued, id)
end

local function waits_elsewhere(id, h)
  if redis.call('ZSCORE', P .. 'autobot:delayed', id) then return true end
  for _, name in ipairs({queue, h.queue or '', type_queue(h), type_of(h)}) do
    if name ~= '' and list('LPOS', queue_key(name), id) then return true end
  end
  return false
end

-- 'living', 'orphan' (its worker lives and does not know it) or 'dead'
local function owner_state(id, h)
  if redis.call('EXISTS', worker_key(h.worker_id, 'heartbeat')) == 0 then return 'dead' end
  local generation = redis.call('HGET', worker_key(h.worker_id, 'config'), 'generation')
  if blank(generation) then return 'living' end
  if generation == h.generation and redis.call('SISMEMBER', worker_key(h.worker_id, 'tasks'), id) == 1 then return 'living' end
  return 'orphan'
end

for i = 5, #ARGV do
  local id = ARGV[i]
  local h = fields(id, FIELDS)
  if not list('LPOS', KEYS[4], id) then
    -- gone meanwhile
  elseif not h then
    drop(id)
    alarm('missing_task', id, queue, 'no hash')
  elseif (h.status and INDEX[h.status]) or h.status == 'failed' then
    drop(id)
  elseif h.status ~= 'running' then
    if waits_elsewhere(id, h) then
      drop(id)
    else
      put_back(id, h)
    end
  elseif blank(h.worker_id) then
    put_back(id, h)
  else
    local state = owner_state(id, h)
    if state == 'dead' then
      table.insert(dead, h.worker_id)
      table.insert(dead, id)
    elseif not blank(h.queue) and h.queue ~= queue and list('LPOS', processing_key(h.queue), id) then
      drop(id)
    elseif state == 'orphan' then
      redis.call('SREM', worker_key(h.worker_id, 'tasks'), id)
      put_back(id, h)
    end
  end
end
for _, id in ipairs(requeued) do alarm('orphan_recovered', id, queue, 'nobody owned it') end
return {'ok', removed, requeued, dead}
