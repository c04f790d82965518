-- renew is one heartbeat with the claims the worker holds, or with some of
-- them: a long list comes in several calls, of which the first is the beat.
-- KEYS  heartbeat, config, registered set, owner set, queues set; the task of each held claim
-- found none
-- ARGV  prefix, worker, generation, TTL (ms), heartbeat (JSON; "" where the beat was in an earlier call), what the worker
--       serves now or "" (JSON list: capabilities, queues, max_concurrent), what to look at (letters: r registration,
--       o size of the owner set, t clock), then for each held claim: id, attempt
-- Returns {state, now or "", lost, cancel, owned, size}; lost and cancel hold 1-based positions in the held list, owned
-- counts the named ids that are in the owner set, size is that of the set or -1. state: ok, reregister, superseded.
local worker, looks = ARGV[2], ARGV[7]
local function look(letter) return string.find(looks, letter, 1, true) ~= nil end
local now = look('t') and int(now_ms()) or ''
local state = generation_state(worker, ARGV[3])
if state == 'ok' and look('r') and redis.call('SISMEMBER', KEYS[3], worker) == 0 then state = 'reregister' end
if state ~= 'ok' then return {state, now, {}, {}, 0, -1} end

if ARGV[5] ~= '' then
  -- Under maxmemory a script may not begin with a SET, but one that has written
  -- already goes on: then the first write is a PEXPIRE.
  local beat = redis.pcall('SET', KEYS[1], ARGV[5], 'PX', ARGV[4])
  if beat.err then
    if not string.find(beat.err, 'OOM', 1, true) then error(beat.err) end
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
    redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[4])
  end
end
if ARGV[6] ~= '' then
  local serving = cjson.decode(ARGV[6])
  redis.call('HSET', KEYS[2], 'capabilities', serving[1], 'queues', serving[2], 'max_concurrent', serving[3])
  add_all(QUEUES, cjson.decode(serving[2]))
end

local lost, cancel, owned, ids = {}, {}, 0, {}
for i = 8, #ARGV, 2 do table.insert(ids, ARGV[i]) end
local own = #ids > 0 and redis.call('SMISMEMBER', KEYS[4], unpack(ids)) or {}
for position, id in ipairs(ids) do
  local h = fields(id, {'status', 'worker_id', 'attempt', 'cancel_requested'})
  local ours = h and h.status == 'running' and h.worker_id == worker
  if not ours or h.attempt ~= ARGV[7 + 2 * position] then
    table.insert(lost, position)
    if own[position] == 1 and not ours then
      redis.call('SREM', KEYS[4], id)
      own[position] = 0
    end
  else
    if own[position] == 0 then
      -- A foreign monitor deletes the whole set of a worker it took for dead.
      redis.call('PEXPIRE', KEYS[1], ARGV[4]) -- first, as above
      redis.call('SADD', KEYS[4], id)
      own[position] = 1
    end
    if h.cancel_requested == '1' then table.insert(cancel, position) end
  end
  owned = owned + own[position]
end
return {state, now, lost, cancel, owned, look('o') and redis.call('SCARD', KEYS[4]) or -1}
