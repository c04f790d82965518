-- audit looks at one moment for what no moment may show. It writes nothing.
-- ARGV  queue names, whose lists and processing lists are looked at
-- Returns id, what of each task that is wrong.
local ENDED = {completed = true, failed_permanent = true, cancelled = true}
local out = {}
for _, name in ipairs(ARGV) do
  for _, id in ipairs(redis.call('LRANGE', 'queue:' .. name .. ':processing', 0, -1)) do
    local status = redis.call('HGET', 'task:' .. id, 'status')
    if ENDED[status] then
      table.insert(out, id)
      table.insert(out, 'was ' .. status .. ' and still in queue:' .. name .. ':processing')
    end
    if status == 'completed' and redis.call('EXISTS', 'task:' .. id .. ':result') == 0 then
      table.insert(out, id)
      table.insert(out, 'was completed before its result was there')
    end
  end
  for _, id in ipairs(redis.call('LRANGE', 'queue:' .. name, -200, -1)) do
    local status = redis.call('HGET', 'task:' .. id, 'status')
    if ENDED[status] or status == 'running' then
      table.insert(out, id)
      table.insert(out, 'was ' .. status .. ' and still waited in queue:' .. name)
    end
  end
end
return out
