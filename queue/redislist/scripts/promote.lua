-- promote moves due delayed tasks to their queues.
-- KEYS  delayed set
-- found the due tasks and their queue:{name}
-- ARGV  prefix, how many at most
-- Returns {moved, ms until the next is due or -1}.
local now = now_ms()
local moved = promote(now, tonumber(ARGV[2]))
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if not next[2] then return {moved, -1} end
return {moved, math.max(0, tonumber(next[2]) - now)}
