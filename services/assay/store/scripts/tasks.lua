#!lua flags=no-writes
-- The registered tasks, last used first. Keys: requests.lua (used, t).
-- ARGV: tasks_max      Returns {'<tenant>:<task>', record} each

local P, call = KEYS[1], redis.call
local found = {}
for _, name in ipairs(call('ZREVRANGE', P .. 'used', 0, tonumber(ARGV[1]) - 1)) do
  local record = call('HGET', P .. 't:' .. name, 'rec')
  if record then found[#found + 1] = { name, record } end -- otherwise it has expired
end
return found
