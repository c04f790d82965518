-- fail records failed attempts: queued again while retries are left, else the
-- task ends.
-- KEYS  owner set, delayed set, failed and cancelled index, queues set; of each outcome: task, its failure, its queue and
--       that one's processing list
-- found unique key of a task; for a task whose list is not the one its claim came from: queue:{name} and
--       queue:{name}:processing of its candidates
-- ARGV  prefix, worker, result TTL (s), default max_retries, back-off base (ms), back-off cap (ms), random seed,
--       then for each outcome: id, attempt, queue, message, code, document, flags, delay (ms, -1: back-off)
--       flags: r retryable, c cancelled, x executor crashed, n uncounted, p poison, e exclude this worker
-- Returns a list of settled answers: of the first outcomes only when enough was done.
local worker, ttl, default_retries = ARGV[2], ARGV[3], tonumber(ARGV[4])
local base, cap = tonumber(ARGV[5]), tonumber(ARGV[6])
math.randomseed(tonumber(ARGV[7]))
local now = now_ms()

local function with_exclude(list)
  local ok, v = pcall(cjson.decode, blank(list) and '[]' or list)
  if not ok or type(v) ~= 'table' then v = {} end
  local out = {}
  for _, w in ipairs(v) do
    if type(w) == 'string' and w ~= worker and #out < 100 then table.insert(out, w) end
  end
  table.insert(out, worker)
  return cjson.encode(out)
end

local function backoff(retries)
  if base <= 0 then return 0 end
  local d = math.min(cap, base * 2 ^ math.min(retries, 20))
  return math.floor(d * (0.8 + 0.4 * math.random()))
end

local function fail_one(id, queue, message, code, document, flags, delay, h)
  local function has(f) return string.find(flags, f, 1, true) ~= nil end
  local origin = leave_processing(id, h, queue)
  redis.call('SREM', worker_key(worker, 'tasks'), id)
  redis.call('SETEX', task_key(id) .. ':failure', ttl_of(h, ttl), document)
  local set = {'last_error', message, 'error_code', code, 'queue', origin}
  local function add(...) for _, v in ipairs({...}) do table.insert(set, v) end end
  if has('x') then add('crash_count', int(count(h.crash_count, 0) + 1)) end
  local retries = count(h.retry_count, 0)
  local deadline = time_ms(h.deadline)
  if has('c') or h.cancel_requested == '1' then
    add('failed_at', seconds(now))
    end_task(id, 'cancelled', now, worker, h.unique_key, set)
    return 'ok'
  end
  if has('n') and not has('p') then
    add('status', 'queued', 'worker_id', '', 'previous_worker', worker, 'requeued_at', seconds(now))
    redis.call('HSET', task_key(id), unpack(set))
    enqueue(id, origin, now, math.max(delay, 0), true)
    return 'requeued'
  end
  if has('r') and not has('p') and retries < count(h.max_retries, default_retries)
    and not (deadline and now > deadline) then
    add('status', 'queued', 'worker_id', '', 'previous_worker', worker, 'requeued_at', seconds(now),
      'retry_count', int(retries + 1))
    if has('e') then add('exclude', with_exclude(h.exclude)) end
    redis.call('HSET', task_key(id), unpack(set))
    enqueue(id, origin, now, delay >= 0 and delay or backoff(retries), false)
    return 'requeued'
  end
  if deadline and now > deadline and has('r') then
    add('error_code', 'DEADLINE_EXCEEDED')
  elseif has('p') then
    add('error_code', 'POISON')
  end
  add('failed_at', seconds(now))
  end_task(id, 'failed_permanent', now, worker, h.unique_key, set)
  return 'ok'
end

return (settle(worker, 8, 8, {'retry_count', 'max_retries', 'cancel_requested', 'crash_count', 'exclude', 'deadline',
                              'previous_worker', 'result_ttl'}, function(i, id, h)
  return fail_one(id, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], tonumber(ARGV[i + 7]), h)
end, function(h)
  return h.status ~= 'completed' and (h.worker_id == worker or (h.status == 'queued' and h.previous_worker == worker))
end))
