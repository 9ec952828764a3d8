#!lua flags=no-writes
-- Requests that wait at stages, by tenant. Keys: requests.lua (s, q).
-- ARGV: tenants_max stages      Returns {tenant, queued, ...} for each stage, of up to tenants_max
--                               tenants with the smallest virtual time

local P, call = KEYS[1], redis.call
local last = tonumber(ARGV[1]) - 1
local found = {}
for i = 2, #ARGV do
  local stage, row = ARGV[i], {}
  for _, tenant in ipairs(call('ZRANGE', P .. 's:' .. stage, 0, last)) do
    row[#row + 1] = tenant
    row[#row + 1] = call('ZCARD', P .. 'q:' .. stage .. ':' .. tenant)
  end
  found[i - 1] = row
end
return found
