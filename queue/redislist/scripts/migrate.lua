-- migrate takes tasks from a dead worker.
-- KEYS  leader, epoch, heartbeat, owner set
-- ARGV  prefix, worker, holder, epoch, delay (ms), max deaths, default max_retries, random seed, ids...
-- Returns {state, requeued, failed, skipped}; state: ok, not_leader, alive.
local worker = ARGV[2]
if not leads(ARGV[3], ARGV[4]) then return {'not_leader', 0, 0, 0} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'alive', 0, 0, 0} end
math.randomseed(tonumber(ARGV[8]))
local o = {delay = tonumber(ARGV[5]), max_deaths = tonumber(ARGV[6]), max_retries = tonumber(ARGV[7])}
local now, requeued, failed, skipped = now_ms(), 0, 0, 0
for i = 9, #ARGV do
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
  local trace = P .. 'autobot:failover:' .. worker
  redis.call('HINCRBY', trace, 'orphaned', requeued + failed)
  redis.call('HINCRBY', trace, 'migrated', requeued)
  redis.call('HINCRBY', trace, 'failed', failed)
  redis.call('EXPIRE', trace, 86400) -- its worker may come back without a word to us
end
return {'ok', requeued, failed, skipped}
