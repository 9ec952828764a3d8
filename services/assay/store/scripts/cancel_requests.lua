#!lua flags=allow-oom
-- Cancel requests of a batch by their ids and groups; call again with the cursor until it is '0'.
-- Those that have ended stay as they are; those submitted later are not affected. Keys:
-- requests.lua.
-- ARGV: tenant batch cursor scanned_max ids groups (packed, in one list each)
-- Returns {'DONE', HGETALL b, ended, cursor} or {'NOT_FOUND'}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua

local uid = ARGV[1] .. ':' .. ARGV[2]
local key = P .. 'b:' .. uid
local state, closing = unpack(call('HMGET', key, 'state', 'closing'))
if not state then return { 'NOT_FOUND' } end
local cursor, chosen = '0', {}
if (state == 'OPEN' or state == 'SEALED') and closing == '' then
  local ids, groups = {}, {}
  for _, id in ipairs(cmsgpack.unpack(ARGV[5])) do ids[id] = true end
  for _, group in ipairs(cmsgpack.unpack(ARGV[6])) do groups[group] = true end
  local found = call('SSCAN', P .. 'live:' .. uid, ARGV[3], 'COUNT', ARGV[4])
  cursor = found[1]
  for _, job in ipairs(found[2]) do
    local static = call('HGET', P .. 'j:' .. job, 'S')
    local request = static and cmsgpack.unpack(static)
    if request and (ids[request[1]] or groups[request[2]]) then chosen[#chosen + 1] = job end
  end
  table.sort(chosen)
  for _, job in ipairs(chosen) do
    local j = read_job(job)
    withdraw(job, j, ARGV[1])
    end_request(job, j, 'CANCELLED', '', '', '', '', '')
    drop_job(job, j)
  end
  write_touched()
end
return { 'DONE', call('HGETALL', key), #chosen, cursor }
