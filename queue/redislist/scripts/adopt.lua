-- adopt finishes a claim whose id a blocking pop already moved to the
-- processing list, or puts the id where it belongs.
-- uses: sweep
-- KEYS  config, owner set, paused set, cordoned set, delayed set, missing set, queues set, completed, failed and cancelled
--       index, inbox, queue, its processing list, task
-- found queue:{name} of the task where it is another, its unique key and the task that holds it
-- ARGV  prefix, claim request (JSON, see sweep.lua), queue, id
-- Returns the claim reply.
local c, queue, id, now = cjson.decode(ARGV[2]), ARGV[3], ARGV[4], now_ms()
local state = generation_state(c.w, c.g)
local r = new_reply(state, now)
if not list('LPOS', processing_key(queue), id) then return r end
local cordoned = redis.call('SISMEMBER', CORDONED, c.w) == 1
if state == 'ok' and cordoned then r[1] = 'cordoned' end
local closed = state ~= 'ok' or cordoned or redis.call('SISMEMBER', PAUSED, queue) == 1
r[7] = redis.call('SMEMBERS', PAUSED)

local h = fields(id, {'status', 'worker_id', 'generation', 'type'})
if h and h.status == 'running' and #redis.call('LPOS', processing_key(queue), id, 'COUNT', 2) == 1 then
  -- The one entry belongs to the claim that runs. If that is this worker's,
  -- the reply to an earlier adoption was lost.
  -- Where it has no slot any more, its heartbeats find the claim and give it
  -- back.
  if not closed and h.worker_id == c.w and h.generation == c.g and c.m > 0 and (c.f[c.t[type_of(h)] or 0] or 0) > 0 then
    table.insert(r[3], {queue, id, redis.call('HGETALL', task_key(id))})
  else
    note(r, id, queue, 'duplicate', 'running')
  end
elseif closed then
  redis.call('LREM', processing_key(queue), 1, id)
  push(queue, id, now, true)
  note(r, id, queue, 'paused')
else
  take(c, r, queue, id, now)
end
return r
