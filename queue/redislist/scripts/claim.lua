-- claim sweeps the given queues in order and hands out up to the free slots.
-- uses: sweep
-- KEYS  worker config, owner set, queues...
-- ARGV  prefix, claim request (JSON, see sweep.lua)
-- Returns the claim reply.
return sweep(cjson.decode(ARGV[2]), now_ms())
