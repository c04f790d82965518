-- claim sweeps the given queues in order and hands out up to the free slots.
-- uses: sweep
-- KEYS  config, owner set, paused set, cordoned set, delayed set, missing set, queues set, completed, failed and cancelled
--       index, inbox; each queue and its processing list
-- found the tasks that are met, the queue:{name} they belong to, queue:{name}:processing of a task from the inbox, unique
--       key of a task and the task that holds it
-- ARGV  prefix, claim request (JSON, see sweep.lua)
-- Returns the claim reply.
return sweep(cjson.decode(ARGV[2]), now_ms())
