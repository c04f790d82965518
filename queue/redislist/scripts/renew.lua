-- renew is one heartbeat with the claims the worker holds.
-- KEYS  heartbeat, config, registered set, owner set
-- ARGV  prefix, worker, generation, TTL (ms), heartbeat (JSON), what the worker serves now or "" (JSON list: capabilities,
--       queues, max_concurrent), then for each held claim: id, attempt, queue
-- Returns {state, now, lost, cancel, unknown}; lost and cancel hold 1-based positions in the held list,
-- unknown holds id, attempt, queue triples. state: ok, reregister, superseded.
local worker, generation = ARGV[2], ARGV[3]
local state = generation_state(worker, generation)
if state == 'ok' and redis.call('SISMEMBER', KEYS[3], worker) == 0 then state = 'reregister' end
if state ~= 'ok' then return {state, int(now_ms()), {}, {}, {}} end
-- PEXPIRE first: under maxmemory a script may not begin with a SET, but one
-- that has written already goes on.
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[4])
if ARGV[6] ~= '' then
  local serving = cjson.decode(ARGV[6])
  redis.call('HSET', KEYS[2], 'capabilities', serving[1], 'queues', serving[2], 'max_concurrent', serving[3])
  for _, name in ipairs(cjson.decode(serving[2])) do redis.call('SADD', P .. 'autobot:queues', name) end
end
local lost, cancel, unknown, held = {}, {}, {}, {}
local own = {}
for _, id in ipairs(redis.call('SMEMBERS', KEYS[4])) do own[id] = true end
local position = 0
for i = 7, #ARGV, 3 do
  local id, attempt = ARGV[i], ARGV[i + 1]
  position = position + 1
  held[id] = true
  local h = fields(id, {'status', 'worker_id', 'attempt', 'cancel_requested'})
  if not h or h.status ~= 'running' or h.worker_id ~= worker or h.attempt ~= attempt then
    table.insert(lost, position)
    if own[id] and not (h and h.status == 'running' and h.worker_id == worker) then redis.call('SREM', KEYS[4], id) end
  else
    -- a foreign monitor deletes the whole set of a worker it took for dead
    if not own[id] then redis.call('SADD', KEYS[4], id) end
    if h.cancel_requested == '1' then table.insert(cancel, position) end
  end
end
for id in pairs(own) do
  if not held[id] then
    local h = fields(id, {'status', 'worker_id', 'attempt', 'queue'})
    if h and h.status == 'running' and h.worker_id == worker then
      table.insert(unknown, id)
      table.insert(unknown, h.attempt or '')
      table.insert(unknown, h.queue or '')
    else
      redis.call('SREM', KEYS[4], id)
    end
  end
end
return {'ok', int(now_ms()), lost, cancel, unknown}
