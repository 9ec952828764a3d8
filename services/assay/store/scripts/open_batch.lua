#!lua
-- Open a batch, or return the one of that name. Keys: requests.lua. ARGV: opening.lua.
-- Returns {'NEW' | 'THERE', HGETALL b} or {'NOT_FOUND' | 'CONFLICT' | 'SATURATED' |
--   'QUOTA_REQUESTS' | 'QUOTA_BYTES' | 'QUOTA_TASKS' | 'OVER_REQUESTS' | 'OVER_BYTES' | 'OTHER_TASK'}
--@include requests.lua
--@include task_use.lua
--@include new_tasks.lua
--@include gathering.lua
--@include letters.lua
--@include opening.lua

local refusal, opening = check_opening(ARGV)
if refusal and refusal ~= 'THERE' then return { refusal } end
if opening then write_opening(ARGV, opening) end
return { opening and 'NEW' or 'THERE', call('HGETALL', P .. 'b:' .. ARGV[1] .. ':' .. ARGV[2]) }
