#!lua flags=no-writes
-- The dead letters of a stage, or of all ('') - newest first. Keys: requests.lua (dlq, dlqs, j).
-- ARGV: stage letters_max [tenant: only its own]      Returns {job, D, S, died_ms} each

local P, call = KEYS[1], redis.call
local letters_max = tonumber(ARGV[2])
local own = ARGV[3] and ':' .. ARGV[3] or ''
local stages = ARGV[1] == '' and call('SMEMBERS', P .. 'dlqs') or { ARGV[1] }

local letters = {}
for _, stage in ipairs(stages) do
  local some = call('ZREVRANGE', P .. 'dlq:' .. stage .. own, 0, letters_max - 1, 'WITHSCORES')
  for i = 1, #some, 2 do letters[#letters + 1] = { some[i], tonumber(some[i + 1]) } end
end
table.sort(letters, function(one, other)
  if one[2] ~= other[2] then return one[2] > other[2] end
  return one[1] > other[1]
end)

local found = {}
for i = 1, math.min(#letters, letters_max) do
  local job = letters[i][1]
  local j = call('HMGET', P .. 'j:' .. job, 'D', 'S')
  found[i] = { job, j[1], j[2], letters[i][2] }
end
return found
