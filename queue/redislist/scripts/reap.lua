-- reap looks after ids that hang in a processing list.
-- KEYS  leader, epoch, queue, processing list, delayed set, cancelled index, queues set; the task of each id
-- found queue:{name} and queue:{name}:processing that a task names or could be in, heartbeat, config and owner set of its
--       worker, unique key of a task
-- ARGV  prefix, holder, epoch, queue, ids...
-- Returns {state, removed, requeued ids, dead, handled}; dead holds owner, id pairs, handled counts the ids that were
-- looked at, the first ones: fewer than all when enough was done. state: ok, not_leader.
local queue = ARGV[4]
if not leads(ARGV[2], ARGV[3]) then return {'not_leader', 0, {}, {}, 0} end
local now, removed, requeued, dead, handled = now_ms(), 0, {}, {}, 0
local FIELDS = {'status', 'worker_id', 'generation', 'type', 'priority', 'queue', 'unique_key', 'cancel_requested'}

local function drop(id)
  removed = removed + remove(KEYS[4], id)
end

local function put_back(id, h)
  remove(KEYS[4], id)
  requeue(id, h, now, queue)
  table.insert(requeued, id)
end

local function waits_elsewhere(id, h)
  if redis.call('ZSCORE', DELAYED, id) then return true end
  for _, name in ipairs({queue, h.queue or '', type_queue(h), type_of(h)}) do
    if name ~= '' and holds(queue_key(name), id) then return true end
  end
  return false
end

-- A worker that has just registered again is still stopping what it ran before,
-- and takes it back when nothing of it is left.
local SETTLING = 15000 -- ms

-- 'living', 'orphan' (its worker lives and does not know it) or 'dead'
local function owner_state(id, h)
  if redis.call('EXISTS', worker_key(h.worker_id, 'heartbeat')) == 0 then return 'dead' end
  local config = redis.call('HMGET', worker_key(h.worker_id, 'config'), 'generation', 'registered_at')
  local generation, since = config[1], time_ms(config[2])
  if blank(generation) then return 'living' end
  if generation ~= h.generation and since and now - since < SETTLING then return 'living' end
  if generation == h.generation and redis.call('SISMEMBER', worker_key(h.worker_id, 'tasks'), id) == 1 then return 'living' end
  return 'orphan'
end

for i = 5, #ARGV do
  if spent() then break end
  spend(ITEM)
  handled = handled + 1
  local id = ARGV[i]
  local h = fields(id, FIELDS)
  if not holds(KEYS[4], id) then
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
    elseif not blank(h.queue) and h.queue ~= queue and holds(processing_key(h.queue), id) then
      drop(id)
    elseif state == 'orphan' then
      redis.call('SREM', worker_key(h.worker_id, 'tasks'), id)
      put_back(id, h)
    end
  end
end
for _, id in ipairs(requeued) do alarm('orphan_recovered', id, queue, 'nobody owned it') end
return {'ok', removed, requeued, dead, handled}
