-- resign gives the lease up if the caller holds it.
-- KEYS  leader
-- found none
-- ARGV  prefix, id
-- Returns 1 or 0.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
