-- submit stores tasks and makes them claimable.
-- KEYS  queues set, delayed set, registered set, cordoned set, workers with an inbox; of each task: task, its queue, its
--       unique key and the inbox it is placed in, if any
-- found the task that holds a unique key
-- ARGV  prefix, then for each task: id, queue, due (ms of the server's clock, "+n" for n ms from now, "" for now),
--       unique key, worker of the inbox or "", n, n field names and values
-- Returns for each task an answer and a detail: ok "", exists "", unique id, worker "" (no such worker).
local now, out = now_ms(), {}
local at_now = seconds(now)
local waiting, names, announced, known = {}, {}, {}, {}
local i = 2
while i <= #ARGV do
  local id, queue, due, unique, worker, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], tonumber(ARGV[i + 5])
  local answer, detail = 'ok', ''
  local holder = unique ~= '' and unique_holder(unique)
  if redis.call('EXISTS', task_key(id)) == 1 then
    answer = 'exists'
  elseif holder then
    answer, detail = 'unique', holder
  elseif worker ~= '' and redis.call('SISMEMBER', KEYS[3], worker) == 0 then
    answer = 'worker'
  else
    local at = 0
    if string.sub(due, 1, 1) == '+' then at = now + tonumber(string.sub(due, 2)) elseif due ~= '' then at = tonumber(due) end
    local set = {'id', id, 'status', 'queued', 'created_at', at_now, 'queue', queue, unpack(ARGV, i + 6, i + 5 + n)}
    if at > now then
      table.insert(set, 'run_at')
      table.insert(set, seconds(at))
    end
    redis.call('HSET', task_key(id), unpack(set))
    if not known[queue] then
      known[queue] = true
      redis.call('SADD', KEYS[1], queue)
    end
    if unique ~= '' then redis.call('SET', unique_key(unique), id) end
    if at > now then
      enqueue(id, queue, now, at - now, false)
    elseif worker ~= '' and redis.call('SISMEMBER', KEYS[4], worker) == 0 then
      redis.call('SADD', KEYS[5], worker)
      redis.call('LPUSH', inbox_key(worker), id)
      publish('autobot:worker:' .. worker, '{"kind":"queues"}')
      announced[#announced + 1] = id
    else
      if not waiting[queue] then
        waiting[queue] = {}
        names[#names + 1] = queue
      end
      table.insert(waiting[queue], id)
      announced[#announced + 1] = id
    end
  end
  out[#out + 1] = answer
  out[#out + 1] = detail
  i = i + 6 + n
end
-- Each queue gets its tasks in one go, in the order that they came in.
for _, queue in ipairs(names) do
  if not list('LPUSH', queue_key(queue), unpack(waiting[queue])) then
    for _, id in ipairs(waiting[queue]) do push(queue, id, now) end
  end
end
announce_all(announced, 'queued')
return out
