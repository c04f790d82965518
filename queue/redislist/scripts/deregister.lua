-- deregister is the last act of a clean stop.
-- KEYS  heartbeat, config, owner set, registered set
-- ARGV  prefix, worker, generation
-- Returns ok, not_empty, reregister (gone already) or superseded.
local state = generation_state(ARGV[2], ARGV[3])
if state ~= 'ok' then return state end
if redis.call('SCARD', KEYS[3]) > 0 then return 'not_empty' end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('SREM', KEYS[4], ARGV[2])
return 'ok'
