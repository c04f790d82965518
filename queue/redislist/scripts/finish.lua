-- finish records successful attempts and, in the same step, claims again.
-- uses: sweep
-- KEYS  owner set, completed index, queues set; of each outcome: task, its result, processing list of its queue; with a
--       claim request: the keys of claim
-- found what claim finds; unique key of a task; for a task whose list is not the one its claim came from:
--       queue:{name}:processing of its candidates
-- ARGV  prefix, worker, default result TTL (s), claim request (JSON or ""),
--       then for each outcome: id, attempt, queue, result
-- Returns {settled, claim reply or an empty list}. When enough was done, settled answers the first outcomes only and
-- nothing is claimed.
local worker, default_ttl, now = ARGV[2], ARGV[3], now_ms()

-- The outcomes are read first and written after that, all together.
local ended, ids, results, taken = {}, {}, {}, {}
local settled, all = settle(worker, 5, 4, {'result_ttl'}, function(i, id, h)
  if taken[id] then return 'already' end
  taken[id] = true
  ids[#ids + 1] = id
  ended[#ended + 1], results[#results + 1] = h, i + 3
  return 'ok'
end, function(h)
  return h.status == 'completed' and h.worker_id == worker
end)

if #ids > 0 then
  local at, ms, index, by, names = seconds(now), int(now), {}, {}, {}
  for k, id in ipairs(ids) do
    local key, h = task_key(id), ended[k]
    -- HSET first: a script that begins with it is refused under maxmemory, and
    -- the outcomes are delivered when there is room for their results.
    redis.call('HSET', key, 'status', 'completed', 'completed_at', at)
    redis.call('SETEX', key .. ':result', ttl_of(h, default_ttl), ARGV[results[k]])
    index[2 * k - 1], index[2 * k] = ms, id
    local name = blank(h.queue) and '' or h.queue
    if not by[name] then
      by[name] = {}
      table.insert(names, name)
    end
    table.insert(by[name], id)
    taken[id] = k
  end
  redis.call('SREM', worker_key(worker, 'tasks'), unpack(ids))
  redis.call('ZADD', INDEX.completed, unpack(index))
  for _, name in ipairs(names) do
    local missed = by[name]
    if name ~= '' then missed = remove_all(processing_key(name), missed) end
    for _, id in ipairs(missed) do leave_processing(id, ended[taken[id]], ARGV[results[taken[id]] - 1]) end
  end
  for k, id in ipairs(ids) do release_unique(ended[k].unique_key, id) end
  announce_all(ids, 'completed', worker)
end
if not all or ARGV[4] == '' then return {settled, {}} end
return {settled, sweep(cjson.decode(ARGV[4]), now)}
