#!lua flags=no-writes
-- The worker hosts whose records have not run out. Keys: requests.lua (hosts, host).
-- Returns {worker, packed} each

local P, call = KEYS[1], redis.call
local clock = call('TIME')
local now_ms = math.floor(tonumber(clock[1]) * 1000 + tonumber(clock[2]) / 1000)
local found = {}
for i, worker in ipairs(call('ZRANGEBYSCORE', P .. 'hosts', '(' .. now_ms, '+inf')) do
  found[i] = { worker, call('HGET', P .. 'host', worker) }
end
return found
