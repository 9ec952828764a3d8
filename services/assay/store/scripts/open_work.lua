#!lua flags=no-writes
-- A piece of the requests that have not ended, batch by batch. Keys: requests.lua (b, live, j).
-- ARGV: jobs_max, then for each batch: uid cursor ('0' = from the start)
-- Returns, for each batch that was reached: {cursor to continue from ('0' = the batch is finished),
--   HGETALL b, {job, D, v, ...}}. The same job may come twice; it is read in the latest state.

local P, call = KEYS[1], redis.call
local left = tonumber(ARGV[1])
local found = {}
for at = 2, #ARGV, 2 do
  local uid = ARGV[at]
  local cursor, jobs = unpack(call('SSCAN', P .. 'live:' .. uid, ARGV[at + 1], 'COUNT', left))
  local read = {}
  for i, job in ipairs(jobs) do
    local j = call('HMGET', P .. 'j:' .. job, 'D', 'v')
    read[3 * i - 2], read[3 * i - 1], read[3 * i] = job, j[1], j[2]
  end
  found[#found + 1] = { cursor, call('HGETALL', P .. 'b:' .. uid), read }
  left = left - #jobs
  if cursor ~= '0' or left <= 0 then break end
end
return found
