-- deregister is the last act of a clean stop.
-- KEYS  heartbeat, config, owner set, registered set, inbox, workers with an inbox, delayed set
-- found the tasks in the inbox and their queue:{name}
-- ARGV  prefix, worker, generation
-- Returns ok, not_empty, inbox (call again: it is long), reregister (gone already) or superseded.
local state = generation_state(ARGV[2], ARGV[3])
if state ~= 'ok' then return state end
if redis.call('SCARD', KEYS[3]) > 0 then return 'not_empty' end
if empty_inbox(ARGV[2], now_ms(), 200) > 0 then return 'inbox' end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('SREM', KEYS[4], ARGV[2])
return 'ok'
