-- adopt finishes a claim whose id a blocking pop already moved to the
-- processing list, or puts the id where it belongs.
-- uses: sweep
-- KEYS  worker config, queue, processing list
-- ARGV  prefix, claim request (JSON, see sweep.lua), queue, id
-- Returns the claim reply.
local c, queue, id, now = cjson.decode(ARGV[2]), ARGV[3], ARGV[4], now_ms()
local state = generation_state(c.w, c.g)
local r = new_reply(state, now)
if not redis.call('LPOS', processing_key(queue), id) then return r end
local cordoned = redis.call('SISMEMBER', P .. 'autobot:cordoned', c.w) == 1
if state == 'ok' and cordoned then r[1] = 'cordoned' end
if state ~= 'ok' or cordoned or redis.call('SISMEMBER', P .. 'autobot:paused', queue) == 1 then
  redis.call('LREM', processing_key(queue), 1, id)
  redis.call('RPUSH', queue_key(queue), id)
  note(r, id, queue, 'paused')
else
  take(c, r, queue, id, now)
end
r[7] = redis.call('SMEMBERS', P .. 'autobot:paused')
return r
