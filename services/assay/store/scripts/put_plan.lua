#!lua
-- Add a plan to a batch's record; the first stays, then the oldest is removed. Keys: requests.lua (pl, b).
-- ARGV: tenant batch plan plans_max      Returns 0 when there is no such batch

local P, call = KEYS[1], redis.call
local uid = ARGV[1] .. ':' .. ARGV[2]
local plans = P .. 'pl:' .. uid
local kept_until = call('PEXPIRETIME', P .. 'b:' .. uid) -- -1 = until it is complete
if kept_until == -2 then return 0 end
if call('RPUSH', plans, ARGV[3]) > tonumber(ARGV[4]) then
  local first = call('LPOP', plans)
  call('LPOP', plans)
  call('LPUSH', plans, first)
end
if kept_until >= 0 then call('PEXPIREAT', plans, kept_until) end
return 1
