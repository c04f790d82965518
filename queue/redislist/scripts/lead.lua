-- lead takes or renews the lease on leadership.
-- KEYS  leader, epoch
-- found none
-- ARGV  prefix, id, TTL (ms)
-- Returns {1 or 0, epoch}.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[2] then
  -- Not PEXPIRE: this has to fail when memory is full. Heartbeats of foreign
  -- workers fail then too, and a leader that noticed nothing would blame them.
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return {1, redis.call('GET', KEYS[2]) or int(redis.call('INCR', KEYS[2]))}
end
if holder then return {0, redis.call('GET', KEYS[2]) or '0'} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {1, int(redis.call('INCR', KEYS[2]))}
