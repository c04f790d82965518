-- inboxes gives the tasks that were placed on workers who cannot take them to
-- everybody: drained workers, and those that are not registered any more.
-- KEYS  workers with an inbox, registered set, cordoned set, delayed set
-- found the inboxes, the tasks in them and their queue:{name}
-- ARGV  prefix, how many tasks at most
-- Returns 1 while there are more.
local now, left = now_ms(), tonumber(ARGV[2])
for _, worker in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local inbox = inbox_key(worker)
  local n = redis.call('LLEN', inbox)
  if n == 0 then
    redis.call('SREM', KEYS[1], worker)
  elseif redis.call('SISMEMBER', KEYS[2], worker) == 0 or redis.call('SISMEMBER', KEYS[3], worker) == 1 then
    if empty_inbox(worker, now, left) > 0 then return 1 end
    left = left - n
    if left <= 0 then return 1 end
  end
end
return 0
