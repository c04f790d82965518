-- submit stores tasks and makes them claimable.
-- KEYS  queues set, delayed set, registered set, cordoned set, workers with an inbox; of each task: task, its queue, its
--       unique key and the inbox it is placed in, if any
-- found the task that holds a unique key
-- ARGV  prefix, then for each task: id, queue, due (ms of the server's clock, "+n" for n ms from now, "" for now),
--       unique key, worker of the inbox or "", type, payload, priority, max_retries, n, n more field names and values
-- Returns how many tasks there were, then for each one that was refused: its number from 0, why and a detail: exists "",
-- unique id, worker "" (no such worker).
local call, now, refused, tasks = redis.call, now_ms(), {}, 0
local at_now = seconds(now)
local waiting, names, announced, known = {}, {}, {}, {}
local i, last = 2, #ARGV
while i <= last do
  local id, queue, due, unique, worker, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], tonumber(ARGV[i + 9])
  local key, why, detail = task_key(id), nil, ''
  local holder = unique ~= '' and unique_holder(unique)
  if call('EXISTS', key) == 1 then
    why = 'exists'
  elseif holder then
    why, detail = 'unique', holder
  elseif worker ~= '' and call('SISMEMBER', KEYS[3], worker) == 0 then
    why = 'worker'
  else
    local at = 0
    if string.sub(due, 1, 1) == '+' then at = now + tonumber(string.sub(due, 2)) elseif due ~= '' then at = tonumber(due) end
    call('HSET', key, 'id', id, 'status', 'queued', 'created_at', at_now, 'queue', queue, 'type', ARGV[i + 5],
      'payload', ARGV[i + 6], 'priority', ARGV[i + 7], 'max_retries', ARGV[i + 8], 'retry_count', '0', 'worker_id', '',
      'previous_worker', '', 'requeued_at', '', unpack(ARGV, i + 10, i + 9 + n))
    if not known[queue] then
      known[queue] = true
      call('SADD', KEYS[1], queue)
    end
    if unique ~= '' then call('SET', unique_key(unique), id) end
    if at > now then
      call('HSET', key, 'run_at', seconds(at))
      enqueue(id, queue, now, at - now, false)
    elseif worker ~= '' and call('SISMEMBER', KEYS[4], worker) == 0 then
      call('SADD', KEYS[5], worker)
      call('LPUSH', inbox_key(worker), id)
      publish('autobot:worker:' .. worker, '{"kind":"queues"}')
      announced[#announced + 1] = id
    else
      local ids = waiting[queue]
      if not ids then
        ids = {}
        waiting[queue] = ids
        names[#names + 1] = queue
      end
      ids[#ids + 1] = id
      announced[#announced + 1] = id
    end
  end
  if why then
    local k = #refused
    refused[k + 1], refused[k + 2], refused[k + 3] = tasks, why, detail
  end
  tasks = tasks + 1
  i = i + 10 + n
end
-- Each queue gets its tasks in one go, in the order that they came in.
for _, queue in ipairs(names) do
  if not list('LPUSH', queue_key(queue), unpack(waiting[queue])) then
    for _, id in ipairs(waiting[queue]) do push(queue, id, now) end
  end
end
announce_all(announced, 'queued')
return {tasks, unpack(refused)}
