-- expire deletes ended tasks that are past their retention. A result that was
-- asked for longer keeps its task until then.
-- KEYS  leader, epoch, completed, failed and cancelled index, missing set
-- found the tasks in the indexes, with their result, failure and progress
-- ARGV  prefix, holder, epoch, retention of completed (ms), of failed and cancelled (ms), how many at most
-- Returns {state, deleted, looked at}.
if not leads(ARGV[2], ARGV[3]) then return {'not_leader', 0, 0} end
local now, left, deleted = now_ms(), tonumber(ARGV[6]), 0
-- An id that was looked for in vain and then found leaves its note behind.
-- First, because a script that begins with a ZADD is refused when memory is
-- full, and this one makes room.
redis.call('ZREMRANGEBYSCORE', MISSING, '-inf', int(now - 3600000))
for status, index in pairs(INDEX) do
  local keep = tonumber(status == 'completed' and ARGV[4] or ARGV[5])
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', int(now - keep), 'LIMIT', 0, left)) do
    left = left - 1
    local h, why = fields(id, {'status', 'result_ttl'})
    local k, wanted = task_key(id), 0
    if h and h.status == status and not blank(h.result_ttl) then
      wanted = redis.call('PTTL', k .. (status == 'completed' and ':result' or ':failure'))
    end
    if wanted > 0 then
      redis.call('ZADD', index, int(now - keep + wanted), id)
    else
      redis.call('ZREM', index, id)
      if h and h.status == status then redis.call('DEL', k, k .. ':result', k .. ':failure', k .. ':progress') end
      if why == 'missing' or (h and h.status == status) then deleted = deleted + 1 end
    end
  end
end
return {'ok', deleted, tonumber(ARGV[6]) - left}
