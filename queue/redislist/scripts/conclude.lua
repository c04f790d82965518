-- conclude removes a dead worker and records the one failover event.
-- KEYS  leader, epoch, heartbeat, owner set, config, registered set, failover log, counts of the failover, inbox, workers
--       with an inbox, delayed set
-- found the tasks in the inbox and their queue:{name}
-- ARGV  prefix, worker, holder, epoch
-- Returns {state, event}; state: ok, not_leader, alive, more (tasks are left), inbox (call again: it is long), none
-- (concluded before).
local worker = ARGV[2]
if not leads(ARGV[3], ARGV[4]) then return {'not_leader', ''} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'alive', ''} end
if redis.call('SCARD', KEYS[4]) > 0 then return {'more', ''} end
if empty_inbox(worker, now_ms(), 200) > 0 then return {'inbox', ''} end
local trace = KEYS[8]
local done = redis.call('HMGET', trace, 'orphaned', 'migrated', 'failed')
local was = redis.call('SREM', KEYS[6], worker) + redis.call('DEL', KEYS[5]) + redis.call('DEL', trace)
if was == 0 then return {'none', ''} end
local event = cjson.encode({event = 'worker_failover', worker_id = worker, orphaned_tasks = tonumber(done[1] or 0),
  migrated_tasks = tonumber(done[2] or 0), failed_tasks = tonumber(done[3] or 0), timestamp = now_ms() / 1000,
  epoch = tonumber(ARGV[4])})
redis.call('LPUSH', KEYS[7], event)
redis.call('LTRIM', KEYS[7], 0, 499)
publish('autobot:events', '{"kind":"failover","worker":' .. cjson.encode(worker) .. ',"data":' .. event .. '}')
return {'ok', event}
