#!lua flags=no-writes
-- How many requests worker hosts judged. Keys: requests.lua (he).
-- ARGV: workers      Returns {stage, count, ...} for each

local P, call = KEYS[1], redis.call
local found = {}
for i, worker in ipairs(ARGV) do found[i] = call('HGETALL', P .. 'he:' .. worker) end
return found
