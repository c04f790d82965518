-- migrate takes tasks from a dead worker.
-- KEYS  leader, epoch, heartbeat, owner set, counts of the failover, delayed set, failed and cancelled index, queues set;
--       the task of each id
-- found queue:{name} and queue:{name}:processing that a task names or could have come from, unique key of a task
-- ARGV  prefix, worker, holder, epoch, delay (ms), max deaths, default max_retries, random seed, ids...
-- Returns {state, requeued, failed, skipped}; state: ok, not_leader, alive. The three numbers add up to the ids that
-- were handled, the first ones: fewer than all when enough was done.
local worker = ARGV[2]
if not leads(ARGV[3], ARGV[4]) then return {'not_leader', 0, 0, 0} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'alive', 0, 0, 0} end
math.randomseed(tonumber(ARGV[8]))
local o = {delay = tonumber(ARGV[5]), max_deaths = tonumber(ARGV[6]), max_retries = tonumber(ARGV[7])}
local now, requeued, failed, skipped = now_ms(), 0, 0, 0
for i = 9, #ARGV do
  if spent() then break end
  spend(ITEM)
  local id = ARGV[i]
  local h = fields(id, DEATH_FIELDS)
  if h and h.status == 'running' and h.worker_id == worker then
    if death(id, h, worker, now, o) == 'requeued' then requeued = requeued + 1 else failed = failed + 1 end
  else
    redis.call('SREM', KEYS[4], id)
    skipped = skipped + 1
  end
end
if requeued + failed > 0 then
  redis.call('HINCRBY', KEYS[5], 'orphaned', requeued + failed)
  redis.call('HINCRBY', KEYS[5], 'migrated', requeued)
  redis.call('HINCRBY', KEYS[5], 'failed', failed)
  redis.call('EXPIRE', KEYS[5], 86400) -- its worker may come back without a word to us
end
return {'ok', requeued, failed, skipped}
