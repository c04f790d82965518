-- recover takes back, at a worker's start, what its earlier generations owned.
-- KEYS  owner set, config, delayed set, failed and cancelled index, queues set; the task of each id
-- found queue:{name} and queue:{name}:processing that a task names or could have come from, unique key of a task
-- ARGV  prefix, worker, generation, unclean ("1" counts like a death), max deaths, default max_retries, ids...
-- Returns {state, requeued, failed, handled}; handled counts the ids that were looked at, the first ones: fewer than all
-- when enough was done.
local worker, generation = ARGV[2], ARGV[3]
local state = generation_state(worker, generation)
if state ~= 'ok' then return {state, 0, 0, 0} end
local now, requeued, failed, handled = now_ms(), 0, 0, 0
local o = {delay = 0, front = true, max_deaths = tonumber(ARGV[5]), max_retries = tonumber(ARGV[6])}
for i = 7, #ARGV do
  if spent() then break end
  spend(ITEM)
  handled = handled + 1
  local id = ARGV[i]
  local h = fields(id, DEATH_FIELDS)
  if not h or h.status ~= 'running' or h.worker_id ~= worker then
    redis.call('SREM', KEYS[1], id)
  elseif h.generation ~= generation then
    if ARGV[4] == '1' then
      if death(id, h, worker, now, o) == 'requeued' then requeued = requeued + 1 else failed = failed + 1 end
    else
      redis.call('SREM', KEYS[1], id)
      requeue(id, h, now, leave_processing(id, h), worker)
      requeued = requeued + 1
    end
  end
end
return {'ok', requeued, failed, handled}
